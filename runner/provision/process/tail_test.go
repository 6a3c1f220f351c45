package process

import (
	"slices"
	"strings"
	"testing"
)

// split feeds s in pieces of n bytes.
func split(s string, n int) (lines []string) {
	var sp splitter
	emit := func(l string) { lines = append(lines, l) }
	for s != "" {
		k := min(n, len(s))
		sp.write([]byte(s[:k]), emit)
		s = s[k:]
	}
	sp.flush(emit)
	return lines
}

func TestSplitter(t *testing.T) {
	for in, want := range map[string][]string{
		"":                   nil,
		"a":                  {"a"},
		"a\n":                {"a"},
		"a\nb":               {"a", "b"},
		"a\n\nb\n":           {"a", "", "b"},
		"\n":                 {""},
		"a\r\nb\r\n":         {"a", "b"},
		"a\r\n\r\n":          {"a"},
		"1%\r2%\r100%\ndone": {"1%", "2%", "100%", "done"},
		"\r\r 5%\r\r\nx":     {" 5%", "x"},
		"é\r\nü":             {"é", "ü"},
	} {
		for n := 1; n <= len(in)+1; n++ {
			if got := split(in, n); !slices.Equal(got, want) {
				t.Errorf("%q in pieces of %d: %q, want %q", in, n, got, want)
			}
		}
	}
}

func TestSplitterLongLine(t *testing.T) {
	long := strings.Repeat("x", maxLine+100)
	for _, n := range []int{1 << 16, maxLine, 2 * maxLine} {
		got := split(long+"\nnext\n"+long, n)
		if len(got) != 3 || len(got[0]) != maxLine || got[1] != "next" || len(got[2]) != maxLine {
			t.Errorf("pieces of %d: %d lines", n, len(got))
		}
	}
}

func FuzzSplitter(f *testing.F) {
	for _, s := range []string{"a\nb", "a\r\nb\r\n", "1%\r2%\n", "\n\n\r\r\n"} {
		f.Add(s, 1)
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 1 {
			return
		}
		whole, pieces := split(s, len(s)+1), split(s, n)
		if !slices.Equal(whole, pieces) {
			t.Errorf("%q: %q in one piece, %q in pieces of %d", s, whole, pieces, n)
		}
		for _, l := range whole {
			if strings.ContainsAny(l, "\r\n") {
				t.Errorf("%q: the line %q has a line end in it", s, l)
			}
		}
		// Nothing but line ends is lost.
		strip := strings.NewReplacer("\r", "", "\n", "")
		if len(s) < maxLine && strings.Join(whole, "") != strip.Replace(s) {
			t.Errorf("%q became %q", s, whole)
		}
	})
}
