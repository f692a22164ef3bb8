// Package guard puts the limits of package limits into etcd's gRPC server.
package guard

import (
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"elasticjob.io/etcd/connections"
	"elasticjob.io/etcd/limits"
	"go.etcd.io/etcd/server/v3/embed"
)

var refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "elasticjob_etcd_refusals_total",
	Help: "Requests of jobs that went beyond a limit of one job.",
}, []string{"limit"})

// StartEtcd is embed.StartEtcd with the limits of the environment.
func StartEtcd(cfg *embed.Config) (*embed.Etcd, error) {
	given, err := limits.FromEnvironment(os.Getenv)
	if err != nil {
		return nil, err
	}
	log := cfg.GetLogger()
	if err := prometheus.Register(refusals); err != nil {
		log.Warn("the metric of refusals cannot be registered", zap.Error(err))
	}
	ledger := limits.NewLedger(given)
	report := newReporter(log).report
	keeper := connections.Use(ledger, given.Exempt, report)
	flow := &flow{ledger: ledger, codec: newCodec(), end: keeper.End}
	guard := &Guard{ledger: ledger, exempt: given.Exempt, now: time.Now, refuse: report, flow: flow}
	cfg.GRPCAdditionalServerOptions = append(cfg.GRPCAdditionalServerOptions, grpc.ForceServerCodecV2(flow.codec),
		grpc.ChainUnaryInterceptor(guard.Unary), grpc.ChainStreamInterceptor(guard.Stream))
	log.Info("each job has limits", zap.Int("streams", given.Streams.Base), zap.Int("watches", given.Watches.Base),
		zap.Int("leases", given.Leases.Base), zap.Int("streams-per-address", given.Streams.PerAddress),
		zap.Int("connections", given.Connections.Base), zap.Int("bytes", given.Bytes.Base))
	go forgetJobs(ledger)
	started, err := embed.StartEtcd(cfg)
	if err == nil {
		flow.server.Store(started.Server)
	}
	return started, err
}

func forgetJobs(ledger *limits.Ledger) {
	for now := range time.Tick(limits.RefillTime) {
		ledger.Forget(now)
	}
}

// reporter writes one line of log a job and minute, and counts all refusals.
type reporter struct {
	log  *zap.Logger
	mu   sync.Mutex
	last map[string]time.Time
}

func newReporter(log *zap.Logger) *reporter {
	return &reporter{log: log, last: map[string]time.Time{}}
}

func (r *reporter) report(name string, refusal *limits.Refusal) {
	refusals.WithLabelValues(refusal.Limit).Inc()
	if r.isDue(name, time.Now()) {
		r.log.Warn("refused a request of a job", zap.String("uid", name), zap.String("reason", refusal.Text))
	}
}

func (r *reporter) isDue(name string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last[name]) < time.Minute {
		return false
	}
	for other, at := range r.last {
		if now.Sub(at) >= time.Minute {
			delete(r.last, other)
		}
	}
	r.last[name] = now
	return true
}
