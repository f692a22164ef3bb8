package limits

import (
	"container/list"
	"io"
	"sync"
)

// OpenConnection counts one more connection from this address, or refuses.
func (l *Ledger) OpenConnection(name, address string) *Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	j.dialed[address]++
	if allowed := l.limits.Connections.Of(len(j.dialed)); l.limits.Connections.Base > 0 && j.connections >= allowed {
		leave(j.dialed, address)
		return full("connections", j.connections, allowed)
	}
	j.connections++
	j.flow.wake(l.allowedBytes(j))
	return nil
}

// CloseConnection is called once for each connection that was opened.
func (l *Ledger) CloseConnection(name, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	leave(j.dialed, address)
	j.connections--
}

const (
	// MaxHandshakes bounds connections without a certificate yet; etcd ends each after 10 seconds.
	MaxHandshakes = 4_096
	// MaxHandshakesOfAddress bounds such connections from one address.
	MaxHandshakesOfAddress = 1_024
)

// Handshakes are the connections whose client has no name yet. If there are too many, the oldest is closed, because
// a handshake takes milliseconds. Safe for concurrent use.
type Handshakes struct {
	total, each int
	mu          sync.Mutex
	queue       *list.List
	addresses   map[string]int
}

// Handshake is one such connection.
type Handshake struct {
	address string
	closer  io.Closer
	element *list.Element // nil once it is over
}

// NewHandshakes returns room for a number of handshakes in all, and from each address.
func NewHandshakes(total, each int) *Handshakes {
	return &Handshakes{total: total, each: each, queue: list.New(), addresses: map[string]int{}}
}

// Begin counts one handshake, and closes the oldest if there is no room.
func (h *Handshakes) Begin(address string, closer io.Closer) *Handshake {
	h.mu.Lock()
	excess := h.oldestInTheWay(address)
	if excess != nil {
		h.remove(excess)
	}
	made := &Handshake{address: address, closer: closer}
	made.element = h.queue.PushBack(made)
	h.addresses[address]++
	h.mu.Unlock()
	if excess != nil {
		_ = excess.closer.Close()
	}
	return made
}

// End counts one less; a second call has no effect.
func (h *Handshakes) End(made *Handshake) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(made)
}

func (h *Handshakes) oldestInTheWay(address string) *Handshake {
	isFull := h.addresses[address] >= h.each
	if !isFull && h.queue.Len() < h.total {
		return nil
	}
	for element := h.queue.Front(); element != nil; element = element.Next() {
		if found := element.Value.(*Handshake); !isFull || found.address == address {
			return found
		}
	}
	return nil
}

func (h *Handshakes) remove(made *Handshake) {
	if made.element == nil {
		return
	}
	h.queue.Remove(made.element)
	made.element = nil
	leave(h.addresses, made.address)
}
