package limits

import (
	"bytes"
	"slices"
)

// MaxReadsOfAKey bounds how often one transaction may read one key, and so the size of its reply.
const MaxReadsOfAKey = 2

// Span is a range of keys as etcd has them: no End is a single key, and the End of one zero byte is behind all keys.
type Span struct {
	Key, End []byte
}

type edge struct {
	at     []byte
	isLast bool // behind all keys
	step   int
}

func (e edge) compare(other edge) int {
	switch {
	case e.isLast && !other.isLast:
		return 1
	case other.isLast && !e.isLast:
		return -1
	case e.isLast:
		return e.step - other.step
	}
	if order := bytes.Compare(e.at, other.at); order != 0 {
		return order
	}
	return e.step - other.step
}

// Depth returns the largest number of spans that share a key.
func Depth(spans []Span) int {
	edges := make([]edge, 0, 2*len(spans))
	for _, span := range spans {
		end := edge{at: span.End, step: -1}
		switch {
		case len(span.End) == 0:
			end.at = append(slices.Clone(span.Key), 0)
		case len(span.End) == 1 && span.End[0] == 0:
			end.isLast = true
		case bytes.Compare(span.End, span.Key) <= 0:
			continue
		}
		edges = append(edges, edge{at: span.Key, step: 1}, end)
	}
	slices.SortFunc(edges, edge.compare)
	depth, most := 0, 0
	for _, edge := range edges {
		depth += edge.step
		most = max(most, depth)
	}
	return most
}

// CheckReads refuses a transaction with a branch that reads these spans too often.
func CheckReads(spans []Span) *Refusal {
	if depth := Depth(spans); depth > MaxReadsOfAKey {
		return readAgain(depth)
	}
	return nil
}
