// Package connections bounds what clients open at etcd's port, with TLS: it counts them by the name in the certificate.
//
// hack/rendezvous-etcd has package embed call NewTLSListener here in place of package transport's.
package connections

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"elasticjob.io/etcd/limits"
	"go.etcd.io/etcd/client/pkg/v3/transport"
)

var current atomic.Pointer[Keeper]

// Keeper decides which connections stay.
type Keeper struct {
	ledger     *limits.Ledger
	exempt     map[string]bool
	refuse     func(name string, refusal *limits.Refusal)
	handshakes *limits.Handshakes

	mu   sync.Mutex
	open map[string]*connection // by the client's address and port
}

// Use makes the keeper of all listeners that are made later.
func Use(ledger *limits.Ledger, exempt map[string]bool, refuse func(string, *limits.Refusal)) *Keeper {
	keeper := &Keeper{
		ledger:     ledger,
		exempt:     exempt,
		refuse:     refuse,
		handshakes: limits.NewHandshakes(limits.MaxHandshakes, limits.MaxHandshakesOfAddress),
		open:       map[string]*connection{},
	}
	current.Store(keeper)
	return keeper
}

// NewTLSListener returns the listener of package transport, with counted connections.
func NewTLSListener(inner net.Listener, info *transport.TLSInfo) (net.Listener, error) {
	keeper := current.Load()
	secure, err := transport.NewTLSListener(&rawListener{inner, keeper}, info)
	if err != nil {
		return nil, err
	}
	return &namedListener{secure, keeper}, nil
}

// End closes a client's connection, if it is open.
func (k *Keeper) End(remote string) {
	k.mu.Lock()
	found := k.open[remote]
	k.mu.Unlock()
	if found != nil {
		_ = found.Close()
	}
}

// admit reports whether a connection may stay whose client has shown its certificate.
func (k *Keeper) admit(c *connection, name string) bool {
	k.handshakes.End(c.handshake)
	if name != "" && !k.exempt[name] {
		if refusal := k.ledger.OpenConnection(name, c.address); refusal != nil {
			k.refuse(name, refusal)
			return false
		}
	} else {
		name = ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c.name, c.isNamed = name, true
	k.open[c.RemoteAddr().String()] = c
	return true
}

func (k *Keeper) forget(c *connection) {
	k.handshakes.End(c.handshake)
	k.mu.Lock()
	if remote := c.RemoteAddr().String(); c.isNamed && k.open[remote] == c {
		delete(k.open, remote)
	}
	name := c.name
	k.mu.Unlock()
	if name != "" {
		k.ledger.CloseConnection(name, c.address)
	}
}

type connection struct {
	net.Conn
	keeper    *Keeper
	address   string
	handshake *limits.Handshake
	closed    sync.Once

	name    string // with the keeper's lock; empty if the client is not counted
	isNamed bool
}

func (c *connection) Close() error {
	err := net.ErrClosed
	c.closed.Do(func() {
		err = c.Conn.Close()
		c.keeper.forget(c)
	})
	return err
}

// rawListener counts connections before their handshake.
type rawListener struct {
	net.Listener
	keeper *Keeper
}

func (l *rawListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	made := &connection{Conn: accepted, keeper: l.keeper, address: HostOf(accepted.RemoteAddr())}
	made.handshake = l.keeper.handshakes.Begin(made.address, accepted)
	return made, nil
}

// namedListener counts connections by name, once the name is known.
type namedListener struct {
	net.Listener
	keeper *Keeper
}

func (l *namedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		secure := accepted.(*tls.Conn) // net/http takes no other for HTTP/2
		raw := secure.NetConn().(*connection)
		if l.keeper.admit(raw, NameOf(secure.ConnectionState())) {
			return secure, nil
		}
		_ = raw.Close()
	}
}

// NameOf returns the name of the verified certificate, as etcd reads it; empty without one.
func NameOf(state tls.ConnectionState) string {
	for _, chain := range state.VerifiedChains {
		if len(chain) > 0 {
			return chain[0].Subject.CommonName
		}
	}
	return ""
}

// HostOf returns the address without the port.
func HostOf(address net.Addr) string {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	return host
}
