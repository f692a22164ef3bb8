package guard

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"elasticjob.io/etcd/connections"
	"elasticjob.io/etcd/limits"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// uncounted are the services that open leases and watches inside etcd, where no interceptor sees them.
var uncounted = []string{"/v3lockpb.Lock/", "/v3electionpb.Election/"}

// Guard has the interceptors of etcd's client port.
type Guard struct {
	ledger *limits.Ledger
	exempt map[string]bool
	now    func() time.Time
	refuse func(name string, refusal *limits.Refusal) // called for each refusal
	flow   *flow
}

// Unary counts leases, and the bytes of requests in progress.
func (g *Guard) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	revoke, isRevoke := req.(*pb.LeaseRevokeRequest)
	if isRevoke {
		answer, err := handle(ctx, req)
		if err == nil {
			g.ledger.Revoked(revoke.ID)
		}
		return answer, err
	}
	name, _ := caller(ctx)
	if g.isExempt(name) {
		return handle(ctx, req)
	}
	if err := g.checkService(name, info.FullMethod); err != nil {
		return nil, err
	}
	if grant, ok := req.(*pb.LeaseGrantRequest); ok {
		return g.grant(ctx, name, grant, handle)
	}
	return g.bounded(ctx, name, req, handle)
}

func (g *Guard) bounded(ctx context.Context, name string, req any, handle grpc.UnaryHandler) (any, error) {
	answer, refusal, err := g.flow.handle(ctx, name, req, handle)
	if refusal != nil {
		return nil, g.refused(name, refusal)
	}
	return answer, err
}

func (g *Guard) grant(ctx context.Context, name string, req *pb.LeaseGrantRequest, handle grpc.UnaryHandler) (any, error) {
	if refusal := g.ledger.BeginGrant(name, req.TTL, g.now()); refusal != nil {
		return nil, g.refused(name, refusal)
	}
	var id, seconds int64
	end := g.ledger.EndGrant
	defer func() { end(name, id, seconds, g.now()) }()
	answer, err := g.bounded(ctx, name, req, handle)
	if granted, ok := answer.(*pb.LeaseGrantResponse); ok && err == nil {
		id, seconds = granted.ID, granted.TTL
	} else if err != nil && req.ID != 0 && !isNotGranted(err) {
		id, seconds = req.ID, max(req.TTL, 1) // etcd has put the ID there
		end = g.ledger.EndUnanswered
	}
	return answer, err
}

// isNotGranted is false for an error that only ends the wait, as when the client gives up. By then etcd has sent the
// grant to the other members, and the lease will exist.
func isNotGranted(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.InvalidArgument, codes.OutOfRange, codes.PermissionDenied, codes.ResourceExhausted,
		codes.Unauthenticated:
		return true
	}
	return false
}

// Stream counts streams, and the watches and renewed leases that pass through them.
func (g *Guard) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	name, address := caller(ss.Context())
	if g.isExempt(name) {
		return handle(srv, ss)
	}
	if err := g.checkService(name, info.FullMethod); err != nil {
		return err
	}
	if refusal := g.ledger.OpenStream(name, address); refusal != nil {
		return g.refused(name, refusal)
	}
	counted := &stream{ServerStream: ss, guard: g, name: name, watches: map[int64]struct{}{}}
	defer func() { g.ledger.CloseStream(name, address, counted.close()) }()
	err := handle(srv, counted)
	if refused := counted.refusal(); refused != nil {
		return refused
	}
	return err
}

func (g *Guard) isExempt(name string) bool {
	return name == "" || g.exempt[name]
}

func (g *Guard) checkService(name, method string) error {
	for _, service := range uncounted {
		if strings.HasPrefix(method, service) {
			return g.refused(name, limits.NoService(method))
		}
	}
	return nil
}

func (g *Guard) refused(name string, refusal *limits.Refusal) error {
	g.refuse(name, refusal)
	code := codes.ResourceExhausted
	switch refusal.Limit {
	case "lease-ttl", "watch-size", "reads":
		code = codes.InvalidArgument
	case "service":
		code = codes.PermissionDenied
	}
	return status.Error(code, refusal.Text)
}

// stream is one stream of a job; it counts requests and answers. etcd receives in one goroutine and sends in another.
type stream struct {
	grpc.ServerStream
	guard *Guard
	name  string

	mu      sync.Mutex
	asked   int                // watches that etcd was asked for and has not answered
	watches map[int64]struct{} // watches that it has confirmed
	closed  bool
	err     error
}

func (s *stream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	request, ok := message.(*pb.WatchRequest)
	if !ok || request.GetCreateRequest() == nil {
		return nil
	}
	return s.ask(request.GetCreateRequest())
}

// ask counts a watch before etcd sees the request. A refusal ends the stream: etcd takes Canceled for the client's own
// end, and writes no line of log for it.
func (s *stream) ask(watch *pb.WatchCreateRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return status.Error(codes.Canceled, "the stream has ended")
	}
	if refusal := s.guard.ledger.OpenWatch(s.name, watchBytes(watch)); refusal != nil {
		s.err = s.guard.refused(s.name, refusal)
		return status.Error(codes.Canceled, refusal.Text)
	}
	s.asked++
	return nil
}

// watchBytes is what etcd keeps of the request: a filter is a byte there and a pointer in memory.
func watchBytes(watch *pb.WatchCreateRequest) int {
	return watch.Size() + 8*len(watch.Filters)
}

func (s *stream) SendMsg(message any) error {
	switch answer := message.(type) {
	case *pb.WatchResponse:
		s.answered(answer)
	case *pb.LeaseKeepAliveResponse:
		s.guard.ledger.Renewed(s.name, answer.ID, answer.TTL, s.guard.now())
	}
	return s.ServerStream.SendMsg(message)
}

// answered counts by the ids that etcd gives. etcd may report a compacted watch as canceled more than once.
func (s *stream) answered(answer *pb.WatchResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	_, isOpen := s.watches[answer.WatchId]
	switch {
	case answer.Created && s.asked > 0:
		s.asked--
		if answer.Canceled {
			s.guard.ledger.CloseWatch(s.name)
		} else {
			s.watches[answer.WatchId] = struct{}{}
		}
	case answer.Canceled && isOpen:
		delete(s.watches, answer.WatchId)
		s.guard.ledger.CloseWatch(s.name)
	}
}

// close returns the number of watches that the stream still had.
func (s *stream) close() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.asked + len(s.watches)
}

func (s *stream) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// caller returns the name of the certificate, as etcd reads it, and the address; no name without a verified one.
func caller(ctx context.Context) (name, address string) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return "", ""
	}
	tls, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", ""
	}
	return connections.NameOf(tls.State), connections.HostOf(from.Addr)
}
