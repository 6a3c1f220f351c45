package report

// A report is a list of blocks, made once from the document and written in each format by a renderer. Texts in blocks
// are raw: the renderer escapes every one of them.
type block any

type (
	// headline is the verdict, what it is about, and why.
	headline struct{ verdict, name, reason string }
	// banner is what nobody may overlook.
	banner struct{ text string }
	// heading begins a part.
	heading struct{ text string }
	// para is running text.
	para struct{ text string }
	// facts are names with values.
	facts struct{ pairs [][2]string }
	// list has a mark before each entry.
	list struct{ items []string }
	// table has numbers to the right; folded ones are closed at first where a format can do that.
	table struct {
		head   []string
		rows   [][]string
		left   int // columns that are text and stand to the left, from the first
		key    int // columns that name a row, from the first
		folded string
	}
)
