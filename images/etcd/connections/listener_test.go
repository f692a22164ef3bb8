package connections

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"elasticjob.io/etcd/limits"
	"go.etcd.io/etcd/client/pkg/v3/transport"
)

const patience = 20 * time.Second

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// authority signs the certificates of one test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	folder      string
}

func newAuthority(t *testing.T) *authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	raw := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	made := &authority{certificate: must(x509.ParseCertificate(raw)), key: key, folder: t.TempDir()}
	made.write("ca.crt", "CERTIFICATE", raw)
	return made
}

func (a *authority) path(file string) string { return filepath.Join(a.folder, file) }

func (a *authority) write(file, kind string, raw []byte) {
	if err := os.WriteFile(a.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		panic(err)
	}
}

// sign makes a certificate with this name, and writes it to files of that name.
func (a *authority) sign(name string) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	raw := must(x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key))
	a.write(name+".crt", "CERTIFICATE", raw)
	a.write(name+".key", "EC PRIVATE KEY", must(x509.MarshalECPrivateKey(key)))
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// stage is a listener with TLS that admits at most one connection of each job.
type stage struct {
	*authority
	listener net.Listener
	keeper   *Keeper
	accepted chan net.Conn

	mu      sync.Mutex
	refused []string
}

func newStage(t *testing.T) *stage {
	s := &stage{authority: newAuthority(t), accepted: make(chan net.Conn, 100)}
	ledger := limits.NewLedger(limits.Limits{Connections: limits.Allowance{Base: 1}})
	s.keeper = Use(ledger, map[string]bool{"root": true}, s.refuse)
	s.sign("server")
	info := &transport.TLSInfo{
		CertFile: s.path("server.crt"), KeyFile: s.path("server.key"), TrustedCAFile: s.path("ca.crt"), ClientCertAuth: true,
	}
	s.listener = must(NewTLSListener(must(net.Listen("tcp", "127.0.0.1:0")), info))
	t.Cleanup(func() { _ = s.listener.Close() })
	go s.accept()
	return s
}

func (s *stage) refuse(name string, refusal *limits.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, name+" "+refusal.Limit)
}

func (s *stage) accept() {
	for {
		accepted, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.accepted <- accepted
	}
}

// dial returns a client with a certificate of this name.
func (s *stage) dial(t *testing.T, name string) *tls.Conn {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.certificate)
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{s.sign(name)}, NextProtos: []string{"h2"}}
	made := must(tls.Dial("tcp", s.listener.Addr().String(), config))
	_ = made.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// admitted returns the server's end of the next client.
func (s *stage) admitted(t *testing.T) net.Conn {
	t.Helper()
	select {
	case found := <-s.accepted:
		return found
	case <-time.After(patience):
		t.Fatal("nobody comes")
		return nil
	}
}

func (s *stage) expectOpen(t *testing.T, wanted int) {
	t.Helper()
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	if got := len(s.keeper.open); got != wanted {
		t.Fatalf("want %d connections, got %d", wanted, got)
	}
}

func expectEnded(t *testing.T, client net.Conn) {
	t.Helper()
	var late net.Error
	if _, err := client.Read(make([]byte, 1)); err == nil || (errors.As(err, &late) && late.Timeout()) {
		t.Fatalf("the connection is still there: %v", err)
	}
}

func TestASecondConnectionOfAJobIsEndedAndTheFirstStays(t *testing.T) {
	s := newStage(t)
	first := s.dial(t, "a")
	server := s.admitted(t)
	expectEnded(t, s.dial(t, "a"))
	other := s.dial(t, "b")
	s.admitted(t)
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = other.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) != 1 || s.refused[0] != "a connections" {
		t.Fatal(s.refused)
	}
}

func TestAConnectionThatEndsMakesRoomOnce(t *testing.T) {
	s := newStage(t)
	s.dial(t, "a")
	server := s.admitted(t)
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	_ = server.Close() // as a server may
	s.expectOpen(t, 0)
	s.dial(t, "a")
	s.admitted(t)
	expectEnded(t, s.dial(t, "a"))
	s.expectOpen(t, 1)
}

func TestConnectionsOfTheOperatorAreNotCounted(t *testing.T) {
	s := newStage(t)
	for range 3 {
		s.dial(t, "root")
		s.admitted(t)
	}
	s.expectOpen(t, 3)
}

func TestAClientCanBeEndedByItsAddress(t *testing.T) {
	s := newStage(t)
	client := s.dial(t, "a")
	server := s.admitted(t)
	s.keeper.End("10.0.0.1:1") // of no client
	s.keeper.End(server.RemoteAddr().String())
	s.keeper.End(server.RemoteAddr().String())
	expectEnded(t, client)
	s.expectOpen(t, 0)
}

func TestAClientWithoutACertificateLeavesNothing(t *testing.T) {
	s := newStage(t)
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // an unknown client
	for range 3 {
		if stranger, err := tls.Dial("tcp", s.listener.Addr().String(), config); err == nil {
			_ = stranger.SetDeadline(time.Now().Add(patience))
			expectEnded(t, stranger)
			_ = stranger.Close()
		}
	}
	s.dial(t, "a") // the one before has ended
	s.admitted(t)
	s.expectOpen(t, 1)
}

func TestManyClientsAtOnceAreCountedRight(t *testing.T) {
	s := newStage(t)
	config := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{s.sign("a")}} //nolint:gosec // of the test
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			if made, err := tls.Dial("tcp", s.listener.Addr().String(), config); err == nil {
				_ = made.Close()
			}
		})
	}
	clients.Wait()
	_ = s.listener.Close()
	for until := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		for len(s.accepted) > 0 {
			_ = (<-s.accepted).Close()
		}
		if refusal := s.keeper.ledger.OpenConnection("a", "127.0.0.1"); refusal == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatal("connections are counted that are over")
		}
	}
}

func TestTheNameIsThatOfTheVerifiedCertificateOnly(t *testing.T) {
	named := func(name string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}}
	}
	for _, given := range []struct {
		state tls.ConnectionState
		name  string
	}{
		{tls.ConnectionState{}, ""},
		{tls.ConnectionState{PeerCertificates: []*x509.Certificate{named("a")}}, ""},
		{tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{}, {named("a"), named("ca")}}}, "a"},
	} {
		if got := NameOf(given.state); got != given.name {
			t.Fatal(got, given.name)
		}
	}
}

func TestTheHostIsTheAddressWithoutItsPort(t *testing.T) {
	for address, host := range map[net.Addr]string{
		&net.TCPAddr{IP: net.IPv6loopback, Port: 1}: "::1",
		&net.UnixAddr{Name: "/s", Net: "unix"}:      "/s",
	} {
		if got := HostOf(address); got != host {
			t.Fatal(got)
		}
	}
}

func TestAListenerWithoutCertificatesIsRefused(t *testing.T) {
	Use(limits.NewLedger(limits.Limits{}), nil, nil)
	inner := must(net.Listen("tcp", "127.0.0.1:0"))
	if made, err := NewTLSListener(inner, &transport.TLSInfo{}); err == nil {
		t.Fatal(made)
	}
}
