package sim

import (
	"sync"
	"testing"
)

// A handler that is woken while the loop hands out the last token must not see all tokens of a stream that seems open:
// it would send them without a finish_reason, and then nothing more.
func TestLastTokenIsSeenAsLast(t *testing.T) {
	const tokens = 20
	for range 2000 {
		o := newStream()
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := 1; n < tokens; n++ {
				o.emit(n, open)
			}
			o.emit(tokens, finished)
		})
		for {
			state, n := o.look()
			if n == tokens && state != finished {
				t.Fatalf("%d tokens are there and the state is %d", n, state)
			}
			if state == finished {
				if n != tokens {
					t.Fatalf("finished with %d tokens", n)
				}
				break
			}
		}
		wg.Wait()
	}
}

func TestEndKeepsTheTokens(t *testing.T) {
	o := newStream()
	o.emit(7, open)
	o.end(dead)
	if state, n := o.look(); state != dead || n != 7 {
		t.Errorf("state %d with %d tokens, want dead with 7", state, n)
	}
}
