package rudder

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/compliance"
	reducer "github.com/muster-fleet/muster/internal/pipeline/inventory"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// system is the name of Rudder in the node registrations of intent. Nodes of other systems may have the same names.
const system = "rudder"

// Config holds the settings and dependencies of a Server.
type Config struct {
	Journal core.Appender
	Nodes   Nodes
	// Namespaces returns the namespaces that allow an address to send inventories and runs of their nodes.
	Namespaces func(from netip.Addr) []string
	// ChangesOnly reports whether Rudder's agents of a namespace report only changes and components that are not compliant.
	ChangesOnly func(namespace string) bool
	View        View
	Inventories Inventories
	Runs        Runs
	Intent      Intent
	Limiter     *core.Limiter
	Pressures   *core.FillLevels // files wait for them
	Limits      Limits

	Stalled    func() *time.Time     // when the journal last stood still; nil: it is not known
	Now        func() time.Time      // default time.Now
	Log        *slog.Logger          // default: nothing is logged
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Nodes is the interface to the directory of nodes that the source uses.
type Nodes interface {
	Node(id model.NodeID) *directory.Node
	AssignmentOf(node model.NodeID) *directory.Assignment
	// CatchUp returns when applied changes are in force.
	CatchUp(ctx context.Context) error
}

// View is the interface for reading the last received sequence number of each message stream of a node.
// *shard.Shard implements it.
type View interface {
	LastNumbers(ctx context.Context, node model.NodeID, after journal.Position) ([]wire.StreamLast, error)
}

// Inventories is the interface that returns a node's present inventory and admits new inventory data.
// *inventory.View implements it.
type Inventories interface {
	Inventory(node model.NodeID) (reducer.Inventory, bool)
	Admit(namespace model.NamespaceID, body []byte) (reason string)
}

// Runs is the interface that finds the last run of a directive on a node. *compliance.View implements it.
type Runs interface {
	LastRun(node model.NodeID, directive model.UnitID) (compliance.Run, bool)
}

// Intent is the interface that finds and creates nodes. *intent.Service implements it.
type Intent interface {
	LookupNode(uid uuid.UUID) (intent.NodeInfo, bool)
	RegisterExternal(ctx context.Context, by intent.Actor, m *intent.ExternalAgent) (intent.NodeInfo, error)
	RecordReport(info intent.NodeInfo, received intent.AgentReport) (limit, reason string)
}

// Limits has the limits on files that Rudder's agents send. Zero: the default.
type Limits struct {
	BodyBytes  int           // one file as it is sent; default 8 MiB
	PlainBytes int           // one file, uncompressed; default 32 MiB
	AllBytes   int64         // all files that are handled at the same time, uncompressed; default 128 MiB
	WaitBytes  int           // inventories that wait for their signatures; default 64 MiB
	Request    time.Duration // of one request; default 60 s
}

// setDefaults fills zero values with defaults and fails if a dependency is missing.
func (c *Config) setDefaults() error {
	if c.Journal == nil || c.Nodes == nil || c.Namespaces == nil || c.View == nil || c.Inventories == nil || c.Runs == nil || c.Intent == nil || c.Limiter == nil || c.Pressures == nil {
		return errors.New("BUG: source of Rudder's agents without journal, nodes, namespaces, views, intent, limiter or pressures")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
	l := &c.Limits
	l.BodyBytes, l.PlainBytes = cmp.Or(l.BodyBytes, 8<<20), cmp.Or(l.PlainBytes, 32<<20)
	l.AllBytes, l.WaitBytes = cmp.Or(l.AllBytes, 128<<20), cmp.Or(l.WaitBytes, 64<<20)
	l.Request = cmp.Or(l.Request, time.Minute)
	return nil
}

// Server answers the requests of Rudder's agents and relays.
type Server struct {
	cfg     Config
	metrics *metrics
	memory  *semaphore.Weighted // bytes of the files that are handled
	nodes   nodes
	uploads uploads
	refused rate.Sometimes
}

// New returns a server for Rudder's agents, after a check of its configuration.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, metrics: newMetrics(cfg.Registerer), memory: semaphore.NewWeighted(cfg.Limits.AllBytes), uploads: uploads{most: cfg.Limits.WaitBytes}, refused: admission.OncePerMinute()}, nil
}

// outcome is the result of a request, as a label for metrics. Every request raises exactly one.
type outcome string

const (
	asked          outcome = "uuid"            // the id of the server was read
	waits          outcome = "waits"           // one file of an inventory; the other is missing
	tookInventory  outcome = "inventory"       // an inventory, in the journal or equal to the present one
	olderInventory outcome = "inventory_older" // an inventory that is older than one that counted
	tookRun        outcome = "run"             // a run, in the journal
	repeatedRun    outcome = "run_repeated"    // a run that counted before
	lateRun        outcome = "run_late"        // a run that is older than one that counted
	partialRun     outcome = "run_partial"     // a part of a run, started by hand on the node
)

// ServeHTTP answers one HTTP request of a Rudder agent or relay.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	deadline := time.Now().Add(s.cfg.Limits.Request)
	_ = http.NewResponseController(w).SetReadDeadline(deadline)
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()
	result, err := s.handle(ctx, w, r)
	if err != nil {
		result = outcome(model.ClassOf(err).Label())
		s.refused.Do(func() {
			s.cfg.Log.Warn("refused a request of an agent of Rudder; at most one line a minute, see muster_rudder_requests_total", "peer", r.RemoteAddr, "path", model.Truncate(r.URL.Path, 200), "err", err)
		})
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(model.ClassOf(err).HTTP())
		_, _ = io.WriteString(w, err.Error()+"\n")
	}
	s.metrics.requests.WithLabelValues(string(result)).Inc()
}

// handle handles one request, a GET of the server's id or a PUT of a file. It writes the answer unless it returns an
// error.
func (s *Server) handle(ctx context.Context, w http.ResponseWriter, r *http.Request) (result outcome, err error) {
	folder, file, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if folder == "uuid" && file == "" && r.Method == http.MethodGet {
		_, _ = io.WriteString(w, "root\n")
		return asked, nil
	}
	if !slices.Contains([]string{"inventories", "inventory-updates", "reports"}, folder) {
		return "", model.Errorf(model.NotFound, "this server has no path %s", model.Truncate(r.URL.Path, 200)).WithHint("send inventories and reports only: docs/from-rudder.md")
	}
	if r.Method != http.MethodPut {
		return "", model.Errorf(model.Unsupported, "send files by PUT, not %s", r.Method)
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "", err
	}
	from := peer.Addr().Unmap()
	namespaces := s.cfg.Namespaces(from)
	if len(namespaces) == 0 {
		return "", model.Errorf(model.Forbidden, "no namespace allows address %s to send inventories and runs", from).
			WithHint("muster edit namespace NAME, and add to spec: rudderFrom: [%s]", from)
	}
	admission.ProtectRequest(ctx)
	data, err := io.ReadAll(io.LimitReader(r.Body, int64(s.cfg.Limits.BodyBytes)+1))
	switch {
	case err != nil:
		return "", model.Errorf(model.Invalid, "cannot read the file to its end: %w", err)
	case len(data) > s.cfg.Limits.BodyBytes:
		return "", model.Errorf(model.TooLarge, "the file is larger than the limit of %s", model.Size(s.cfg.Limits.BodyBytes))
	}
	s.metrics.bytes.Add(float64(len(data)))
	most := min(64*len(data)+1<<20, s.cfg.Limits.PlainBytes)
	if s.memory.Acquire(ctx, min(int64(most), s.cfg.Limits.AllBytes)) != nil {
		return "", model.Errorf(model.Unavailable, "the server is handling too many large files").WithHint("send it again")
	}
	defer s.memory.Release(min(int64(most), s.cfg.Limits.AllBytes))
	if data, err = uncompress(data, most); err != nil {
		return "", err
	}
	if folder == "reports" {
		result, err = s.handleRun(ctx, namespaces, data, from)
	} else {
		result, err = s.handleInventoryFile(ctx, namespaces, file, data, from)
	}
	if err == nil {
		w.WriteHeader(http.StatusCreated)
	}
	return result, err
}

// handleInventoryFile stores one file of an inventory, and handles the inventory after the second file.
func (s *Server) handleInventoryFile(ctx context.Context, namespaces []string, file string, data []byte, from netip.Addr) (outcome, error) {
	key, isSignature, ok := keyOfUpload(from.String(), file)
	if !ok {
		return "", model.Errorf(model.Invalid, "the file %q is no inventory and no signature of an inventory", model.Truncate(file, 100)).WithHint("expected NAME.ocs, .xml or .json, also with .gz, and its signature NAME.ocs.sign")
	}
	packed, signature, err := s.uploads.addFile(key, isSignature, data, s.cfg.Now())
	if packed == nil {
		return waits, err
	}
	result, err := s.handleInventory(ctx, namespaces, packed, signature, from)
	if class := model.ClassOf(err); err == nil || class != model.Unavailable && class != model.Limited {
		s.uploads.remove(key)
	}
	return result, err
}

// handleInventory verifies an inventory, and writes the changes since the node's present inventory to the journal.
func (s *Server) handleInventory(ctx context.Context, namespaces []string, data, signature []byte, from netip.Addr) (outcome, error) {
	signed, err := parseSignature(signature)
	if err != nil {
		return "", err
	}
	root, err := parseElements(data)
	if err != nil {
		return "", err
	}
	m, err := readInventory(root)
	if err == nil {
		err = m.checkTime(s.cfg.Now())
	}
	if err != nil {
		return "", err
	}
	if err := signed.verify(m.key, data); err != nil {
		return "", model.Errorf(model.Forbidden, "the inventory of %s is not signed by the key in it: %w", m, err)
	}
	m.facts[model.RudderInventoryFact] = m.logged.UTC().Format(time.RFC3339)
	info, err := s.register(ctx, namespaces, m, from)
	if err != nil {
		return "", err
	}
	n := s.lockNode(&info)
	defer n.mu.Unlock()
	if m.logged.Before(n.lastMade) {
		return olderInventory, nil
	}
	key := wire.StreamKey{Stream: stream, Lane: wire.Live}
	last, err := s.lastNumber(ctx, n, key)
	if err != nil {
		return "", err
	}
	present, known := s.cfg.Inventories.Inventory(info.ID)
	signals := changesOf(present.Entries, known && !present.Stale, m.entries)
	now := uint64(s.cfg.Now().UnixMilli())
	for i := range signals {
		if reason := s.cfg.Inventories.Admit(info.NamespaceID, signals[i].Body); reason != "" {
			return "", model.Errorf(model.Limited, "refused the inventory of %s: %s", m, reason)
		}
		signals[i].AtMs = now
	}
	if err := s.chargeLimits(ctx, n, len(signals), len(data)); err != nil {
		return "", err
	}
	if err := s.writeSignals(ctx, n, key, last, signals, nil); err != nil {
		return "", err
	}
	n.lastMade = m.logged
	if limit, reason := s.cfg.Intent.RecordReport(info, intent.AgentReport{Facts: m.facts}); limit != "" {
		s.refused.Do(func() {
			s.cfg.Log.Warn("refused the facts of a node of Rudder; at most one line a minute", "node", info.Name, "limit", limit, "reason", reason)
		})
	}
	return tookInventory, nil
}

// maxRunAhead bounds how far in the future a run may have begun.
const maxRunAhead = 10 * time.Minute

// handleRun verifies a run of an agent, and writes reports of its directives to the journal. It writes one
// report for each directive that Rudder's agents run on the node.
func (s *Server) handleRun(ctx context.Context, namespaces []string, data []byte, from netip.Addr) (outcome, error) {
	signed, err := parseSignedRun(data)
	if err != nil {
		return "", err
	}
	parsed, err := parseRun(signed.log)
	if err != nil {
		return "", err
	}
	info, pinned, err := s.findNode(namespaces, parsed.node)
	if err == nil && pinned == nil {
		err = model.Errorf(model.NotFound, "the node with the Rudder id %s is unknown: its inventory has to come first", model.Truncate(parsed.node, 100)).WithHint("on the node: rudder agent inventory")
	}
	if err != nil {
		return "", err
	}
	if err := signed.verify(pinned); err != nil {
		return "", wrongKeyError(&info, "its key has not signed the run: "+err.Error())
	}
	now := s.cfg.Now()
	if parsed.start.Sub(now) > maxRunAhead {
		return "", model.Errorf(model.Invalid, "the run of node %s began at %s, more than 10 minutes ahead of the server's clock", info.Name, parsed.start.UTC().Format(time.RFC3339)).WithHint("set the clock of the node")
	}
	n := s.lockNode(&info)
	defer n.mu.Unlock()
	s.metrics.reports[malformed].Add(float64(parsed.invalid))
	if !parsed.fullRun {
		s.metrics.reports[ofPart].Add(float64(len(parsed.reports)))
		return partialRun, nil
	}
	// An old run comes from the agent's spool. It makes no new problem.
	lane := wire.Live
	fresh := now.Sub(parsed.start) < n.core.Timeout
	if !fresh {
		lane = wire.Backlog
	}
	key := wire.StreamKey{Stream: stream, Lane: lane}
	last, err := s.lastNumber(ctx, n, key)
	if err != nil {
		return "", err
	}
	directives := s.directives(info.ID)
	if result := s.compareWithLast(n, directives, parsed.start); result != tookRun {
		return result, nil
	}
	signals := s.reportsOf(&info, directives, parsed, now)
	if err := s.chargeLimits(ctx, n, max(len(signals), 1), len(data)); err != nil {
		return "", err
	}
	var mark []byte
	if fresh {
		mark = n.core.EncodeSessionRecord(wire.SessionRecord{Session: n.session, Start: true})
	}
	if err := s.writeSignals(ctx, n, key, last, signals, mark); err != nil {
		return "", err
	}
	if n.lastRun = parsed.start; fresh {
		s.recordRun(n, parsed.start, from)
	}
	return tookRun, nil
}

// compareWithLast decides by its start time whether a run is newer than the node's earlier runs. It returns tookRun
// for a newer run, and otherwise the outcome that says why the run does not count. After a start of the server the
// view has the last runs: it dates a run by its commit, a moment too late. The caller holds n.mu.
func (s *Server) compareWithLast(n *node, directives []*model.DirectiveDefinition, start time.Time) outcome {
	last, counted := n.lastRun, !n.lastRun.IsZero()
	if !counted {
		for _, d := range directives {
			if r, ok := s.cfg.Runs.LastRun(n.core.ID, d.Unit); ok {
				last = latest(last, time.Unix(0, r.Executed))
			}
		}
	}
	switch {
	case start.After(last):
		return tookRun
	case counted && start.Equal(last), !counted && last.Sub(start) < time.Minute:
		return repeatedRun
	}
	return lateRun
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reportsOf returns the compliance reports that result from an agent's run, one for each directive of the node. A directive with a
// schedule has one only in a run that reports about it.
func (s *Server) reportsOf(of *intent.NodeInfo, directives []*model.DirectiveDefinition, parsed *agentRun, now time.Time) (list []wire.Signal) {
	byDirective := map[string][]componentReport{}
	for _, r := range parsed.reports {
		byDirective[r.directive] = append(byDirective[r.directive], r)
	}
	began := parsed.start
	if began.After(now) {
		began = now
	}
	changesOnly := s.cfg.ChangesOnly(of.Namespace)
	for _, d := range directives {
		if d.Cron != "" && len(byDirective[d.Rudder]) == 0 {
			continue // an agent runs it once in each window of its schedule
		}
		var last *compliance.Outcome
		if changesOnly {
			last = &compliance.Outcome{}
			if run, ok := s.cfg.Runs.LastRun(of.ID, d.Unit); ok {
				last = run.Outcome
			}
		}
		report := evaluateRun(d, parsed, slices.Clone(byDirective[d.Rudder]), last)
		s.metrics.reports[judged].Add(float64(len(byDirective[d.Rudder])))
		list = append(list, wire.Signal{Kind: wire.SignalReport, Definition: d.ID, AtMs: uint64(began.UnixMilli()), Body: wire.AppendReport(nil, &report)})
	}
	for id, reports := range byDirective {
		if !slices.ContainsFunc(directives, func(d *model.DirectiveDefinition) bool { return d.Rudder == id }) {
			s.metrics.reports[otherDirective].Add(float64(len(reports)))
		}
	}
	return list
}

// maxDelay limits a node's debt at its rate limit. Beyond it the server refuses the node's files for a while.
const maxDelay = 30 * time.Second

// chargeLimits waits while the server is overloaded, then charges results and bytes to the rate limits. The
// limits are those of the node and its namespace. The caller holds n.mu.
func (s *Server) chargeLimits(ctx context.Context, n *node, signals, size int) error {
	if signals > 0 {
		if err := s.cfg.Pressures.Wait(ctx, core.SlowResultsAt); err != nil {
			return err
		}
	}
	var budget core.Budget
	budget.Open(s.cfg.Limiter, &n.core)
	if debt := budget.Debt(core.LoadReports, core.LoadBytes); debt.Wait > maxDelay {
		budget.Hit(debt.Limit(), debt.Reason())
		return model.Errorf(model.Limited, "%s", debt.Reason()).WithHint("the agent sends it again with its next run")
	}
	if debt := budget.Spend(&core.TrafficCost{core.LoadReports: signals, core.LoadBytes: size}); debt.Wait > 0 {
		budget.Hit(debt.Limit(), debt.Reason())
	}
	return nil
}

// reportOutcome is the outcome of one component report of a run, such as accepted or malformed. Every report
// raises exactly one.
type reportOutcome uint8

const (
	judged         reportOutcome = iota // it counts for a directive of its node
	otherDirective                      // its node has no such directive here, such as the ones of Rudder itself
	ofPart                              // it is of a part of a run
	malformed                           // a line that looks like a report and is none
	reportOutcomes
)

// metrics holds the metrics of the source for Rudder agents.
type metrics struct {
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
	reports  [reportOutcomes]prometheus.Counter
}

// newMetrics registers the metrics of the source for Rudder agents.
func newMetrics(r prometheus.Registerer) *metrics {
	meter := core.Meter{Registerer: r, Prefix: "muster_rudder_"}
	m := &metrics{
		requests: meter.Vector("requests_total", "Requests of Rudder's agents and relays, by outcome: the kind of the file, or the class of the error.", "outcome"),
		bytes:    meter.Counter("bytes_received_total", "Bytes of these requests, as they were sent."),
	}
	meter.Outcomes("reports_total", "Reports of components in runs of Rudder's agents, by outcome.", m.reports[:], func(i int) string {
		return [reportOutcomes]string{"judged", "other_directive", "of_part", "malformed"}[i]
	})
	return m
}
