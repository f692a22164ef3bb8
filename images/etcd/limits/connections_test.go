package limits

import (
	"fmt"
	"testing"
)

func TestConnectionsOfAJobAreBoundedAndComeBackWhenTheyEnd(t *testing.T) {
	l := NewLedger(Limits{Connections: Allowance{Base: 1, PerAddress: 1}})
	expect(t, l.OpenConnection("a", "1"), "")
	expect(t, l.OpenConnection("a", "1"), "")
	expect(t, l.OpenConnection("a", "1"), "connections")
	expect(t, l.OpenConnection("a", "2"), "")
	expect(t, l.OpenConnection("b", "1"), "") // another job
	l.CloseConnection("a", "2")
	expect(t, l.OpenConnection("a", "1"), "connections")
	l.CloseConnection("a", "1")
	expect(t, l.OpenConnection("a", "1"), "")
}

func TestAJobWithAConnectionIsNotForgotten(t *testing.T) {
	l := NewLedger(Limits{Connections: Allowance{Base: 1}})
	expect(t, l.OpenConnection("a", "1"), "")
	l.Forget(start)
	expect(t, l.OpenConnection("a", "1"), "connections")
	l.CloseConnection("a", "1")
	l.Forget(start)
	if len(l.jobs) != 0 {
		t.Fatal(l.jobs)
	}
}

type closer struct {
	name   string
	closed *[]string
}

func (c closer) Close() error {
	*c.closed = append(*c.closed, c.name)
	return nil
}

func TestWithTooManyHandshakesTheOldestIsClosed(t *testing.T) {
	var closed []string
	h := NewHandshakes(4, 2)
	begin := func(address, name string) *Handshake { return h.Begin(address, closer{name, &closed}) }
	begin("1", "1a")
	over := begin("1", "1b")
	begin("2", "2a")
	begin("1", "1c") // its address is full
	h.End(over)
	h.End(over)
	begin("3", "3a")
	begin("3", "3b")
	begin("4", "4a") // all is full
	if got := fmt.Sprint(closed); got != "[1a 2a]" {
		t.Fatal(got)
	}
	if got := fmt.Sprint(h.queue.Len(), h.addresses); got != "4 map[1:1 3:2 4:1]" {
		t.Fatal(got)
	}
}
