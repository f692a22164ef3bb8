package limits

import "testing"

func span(key, end string) Span { return Span{Key: []byte(key), End: []byte(end)} }

func TestDepthIsHowOftenAKeyIsRead(t *testing.T) {
	for name, given := range map[string]struct {
		spans []Span
		depth int
	}{
		"none":                      {nil, 0},
		"one key":                   {[]Span{span("a", "")}, 1},
		"one key twice":             {[]Span{span("a", ""), span("a", "")}, 2},
		"neighbors":                 {[]Span{span("a", "b"), span("b", "c"), span("b\x00", "")}, 2},
		"a key and its range":       {[]Span{span("a", ""), span("a", "b")}, 2},
		"behind the range":          {[]Span{span("a", "b"), span("b", "")}, 1},
		"all keys":                  {[]Span{span("a", "\x00"), span("b", "\x00"), span("z", "")}, 3},
		"nothing at all":            {[]Span{span("b", "a"), span("b", "b"), span("b", "")}, 1},
		"inside each other":         {[]Span{span("a", "z"), span("b", "y"), span("c", "x")}, 3},
		"in two places":             {[]Span{span("a", "c"), span("b", "d"), span("e", "g"), span("f", "h")}, 2},
		"behind a key's successors": {[]Span{span("a", ""), span("a\x00", "")}, 1},
	} {
		if depth := Depth(given.spans); depth != given.depth {
			t.Errorf("%s: %d", name, depth)
		}
	}
}

func TestATransactionMayReadAKeyTwice(t *testing.T) {
	expect(t, CheckReads([]Span{span("a", "b"), span("a", "")}), "")
	expect(t, CheckReads([]Span{span("a", "b"), span("a", ""), span("a", "b")}), "reads")
}
