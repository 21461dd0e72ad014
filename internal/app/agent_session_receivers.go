package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/recorder"
	"github.com/muster-fleet/muster/internal/rollout"
	"github.com/muster-fleet/muster/internal/roundrobin"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/alertmanager"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/source/remotewrite"
	"github.com/muster-fleet/muster/internal/source/rudder"
	"github.com/muster-fleet/muster/internal/source/sensu"
	"github.com/muster-fleet/muster/internal/source/zabbix"
	"github.com/muster-fleet/muster/internal/watchdog"
	"github.com/muster-fleet/muster/internal/wire"
)

// sources holds the receivers of agents' sessions and of data from other programs. Muster and Sensu agents send
// results, Prometheus and Grafana alerts, Zabbix values, and Rudder inventories and runs. A node has a session with
// one agent: Muster's, Sensu's, Zabbix' or Rudder's.
type sources struct {
	authority    *pki.Authority
	names        []string      // of the server's certificate, in the order in which join tokens have them
	agentSources []agentSource // the open ones of sessions, bridge and the servers of Zabbix' and Rudder's agents
	sessions     *muster.Server
	bridge       *sensu.Server          // of Sensu's agents; nil: there is no listener for them
	sensuCA      *admission.Authorities // of Sensu agents' certificates; nil: these are refused
	alerts       *alertmanager.Server
	samples      *remotewrite.Server
	trapper      *zabbix.Server     // receives values of Zabbix, and polls its agents
	turns        *roundrobin.Engine // distributes runs of round-robin checks
}

// agentSource is a receiver of agents' sessions, such as the receiver for Sensu agents.
type agentSource interface {
	Connected(model.NodeID) bool
	Agent(model.NodeID) (core.Agent, bool)
	Sessions() int // number of nodes with a session
}

// connected reports whether a node's agent has an open session with any receiver.
func (so *sources) connected(node model.NodeID) bool {
	return slices.ContainsFunc(so.agentSources, func(of agentSource) bool { return of.Connected(node) })
}

// connectedNodes returns the number of nodes with a session.
func (so *sources) connectedNodes() (n int) {
	for _, of := range so.agentSources {
		n += of.Sessions()
	}
	return n
}

// agentState returns the state of a node's session with an agent. Without a session, ok is false.
func (so *sources) agentState(node model.NodeID) (a core.Agent, ok bool) {
	for _, of := range so.agentSources {
		if a, ok = of.Agent(node); ok {
			break
		}
	}
	return a, ok
}

// requestRoundRobinRun asks a node's agent for one run of a round-robin check, which several nodes run in turn.
// Without a session, it returns false.
func (so *sources) requestRoundRobinRun(node model.NodeID, g wire.RoundRobinRun) bool {
	return so.sessions.RequestRoundRobinRun(node, g) || so.bridge != nil && so.bridge.RequestRoundRobinRun(node, g)
}

// runRequester asks the agents of nodes to run a check or command now, as for muster run.
type runRequester struct {
	*core.Runs
	sessions *muster.Server
	bridge   *sensu.Server
}

// RequestRun asks the agent of a node to run a check or command now.
func (r runRequester) RequestRun(node model.NodeID, run wire.Run) error {
	if r.bridge != nil && r.bridge.Connected(node) {
		return r.bridge.RequestRun(r.Runs, node, run)
	}
	return r.sessions.RequestRun(r.Runs, node, run)
}

// openSessions opens the receiver of agents' sessions. Its parts are the certificate authority and the scheduler of
// round-robin checks.
func (s *Server) openSessions(ctx context.Context) (err error) {
	s.names = s.cfg.CertificateNames(ctx)
	if s.authority, err = pki.Open(s.path("pki"), s.names, s.now); err != nil {
		return err
	}
	s.files.Add(pki.Files(s.path("pki"))...)
	if s.markedStores.Authority, err = pki.FolderIdentity(s.path("pki")); err != nil {
		return err
	}
	s.authority.NodeLife = time.Duration(s.cfg.CertificateLife)
	s.turns = roundrobin.New(roundrobin.Options{
		Revision: s.directory.Revision, RoundRobins: s.directory.RoundRobins, Give: s.requestRoundRobinRun,
		Missed: s.recordMissedRuns, Last: s.lastRun, Grace: time.Duration(s.cfg.ReconnectGrace), Now: s.now, Log: s.log,
	})
	s.rollouts = rollout.New(rollout.Options{
		Stored: s.intent.Rollouts, Directory: s.directory, LastRun: s.compliance.LastRun, Connected: s.connected,
		Grace: time.Duration(s.cfg.ReconnectGrace), Now: s.now, Log: s.log,
	})
	s.registerTask(back, "roll-outs", s.rollouts.Run)
	queued, _ := s.queues.Bounds("journal")
	s.sessions, err = muster.New(muster.Config{
		Config: s.sourceConfig(), Nodes: agentNodes{s.intent, s.directory, &s.courier}, View: s.view, SigningKey: s.authority.SigningKey(),
		Servers: s.cfg.AgentServers, ProxyFrom: s.cfg.Proxies(), Kinds: []wire.SignalKind{wire.SignalValueBlock, wire.SignalReport}, Inventories: s.inventories, Turns: s.stepTurns,
		Limits: muster.Limits{
			SessionLimits: sessionLimits(s.cfg), Connections: maxConnections(),
			FrameBytes: int(s.cfg.MaxFrame), OutputBytes: int(s.cfg.MaxOutput), NodeResultsPerSec: s.cfg.NodeRate,
			JournalQueueBytes: queued,
		},
		Pressures: []core.FillLevel{func() (share float64, reason string) {
			if s.history.Trouble() != nil { // the history store does not answer: slower agents would not help
				return 0, ""
			}
			return s.dispatcher.Fullness(), "the server's history lags behind the journal"
		}},
		OnSessionLoss: s.monitor.ReportSessionLoss, OnOlderData: s.monitor.ReportLostResults, Assets: s.archives.Open,
	})
	if err != nil {
		return err
	}
	s.agentSources = append(s.agentSources, s.sessions)
	s.registerTask(back, "sessions", s.sessions.Run) // writers, before the front accepts connections
	s.registerTask(front, "turns", s.turns.Run)      // ends before agents are sent away
	return nil
}

// sessionLimits returns the configured limits of agent sessions
func sessionLimits(cfg *config.Server) core.SessionLimits {
	return core.SessionLimits{UnackedBytes: int(cfg.MaxUnacked),
		Keepalive: time.Duration(cfg.KeepaliveInterval), Timeout: time.Duration(cfg.KeepaliveTimeout)}
}

// sourceConfig returns the settings that the receivers of Muster and Sensu agent sessions share
func (s *Server) sourceConfig() core.Config {
	return core.Config{
		Journal: s.journal, Assignments: s.directory, Secret: s.secretValue, OnClone: s.monitor.ReportClone, OnRan: s.turns.RecordResult,
		OnEnded: s.turns.SessionEnded, Stalled: s.journal.LastStallEnd, Now: s.now, Queues: s.queues, Log: s.log, Registerer: s.registry,
	}
}

// lastRun returns when any node last sent a result of a round-robin check for a proxy node.
func (s *Server) lastRun(node model.NodeID, check model.CheckID) (at time.Time, ok bool) {
	st, ok := s.view.Get(node, model.CheckSource(check))
	if !ok || st.Stream == 0 { // stream 0: results of the server itself
		return at, ok
	}
	return time.Unix(0, st.Received), true
}

// missedBatch bounds the results that recordMissedRuns writes in one commit.
const missedBatch = 1000

// recordMissedRuns records an UNKNOWN result for each proxy node whose round-robin check no node could run. A
// proxy node has no agent, so that a connected node must run the check.
func (s *Server) recordMissedRuns(ctx context.Context, list []roundrobin.MissedRun) error {
	results := make([]recorder.Result, 0, len(list))
	for _, m := range list {
		if s.directory.RunsUnit(m.ProxyNode, m.Definition.Unit) { // otherwise the node was deleted with its events
			results = append(results, recorder.Result{Node: m.ProxyNode, Definition: m.Definition.ID, Status: model.Unknown, Output: m.Text})
		}
	}
	for part := range slices.Chunk(results, missedBatch) {
		if _, err := s.recorder.RecordResults(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// directoryWithFaults combines the planner's index of nodes with the errors that keep checks and items from running. It adds a
// fault for each round-robin check that no connected node can run, and for polled agents that do not answer.
type directoryWithFaults struct {
	*directory.Directory
	*plan.Inspector
	sources *sources
}

// Faults returns the errors of the planner, of round-robin checks and of polled agents. A round-robin check has an error if no
// connected node can run it; polled agents have one for each reason why they do not answer.
func (l directoryWithFaults) Faults(namespace string) (list []plan.Fault, nodes int) {
	list, nodes = l.Inspector.Faults(namespace)
	idle, about := l.sources.turns.Faults(namespace)
	failing, without := l.pollFaults(namespace)
	return slices.Concat(idle, failing, list), nodes + about + without
}

// pollFaults returns an error for each reason why polled agents of a namespace do not answer. An empty namespace stands for all.
func (l directoryWithFaults) pollFaults(namespace string) (list []plan.Fault, nodes int) {
	byReason := map[string][]model.NodeID{}
	l.sources.trapper.EachPollFault(func(node model.NodeID, reason string) {
		if namespace == "" || l.Directory.Node(node).Namespace == namespace {
			byReason[reason] = append(byReason[reason], node)
			nodes++
		}
	})
	for reason, of := range byReason {
		slices.Sort(of)
		list = append(list, plan.Fault{Text: "cannot poll the agent of Zabbix: " + reason, Nodes: len(of), Examples: of[:min(len(of), 3)]})
	}
	slices.SortFunc(list, func(a, b plan.Fault) int { return cmp.Or(b.Nodes-a.Nodes, strings.Compare(a.Text, b.Text)) })
	return list, nodes
}

// NodeFaults returns the planner's errors about a node, and the reason why the server cannot poll its agent.
func (l directoryWithFaults) NodeFaults(node model.NodeID) []plan.Fault {
	list := l.Inspector.NodeFaults(node)
	if address, reason, since := l.sources.trapper.PollFault(node); reason != "" {
		text := fmt.Sprintf("cannot poll the agent of Zabbix at %s since %s: %s", address, since.UTC().Format(time.DateTime+"Z"), reason)
		list = append(list, plan.Fault{Text: text, Nodes: 1, Examples: []model.NodeID{node}})
	}
	return list
}

// currentDirectory is the planner's index of nodes and checks, with a method to wait for pending resource
// changes. Receivers use it when they need a node or check at once that they have just created.
type currentDirectory struct {
	*directory.Directory
	planner *plan.Planner
}

// CatchUp waits until the planner has compiled all committed changes of resources into its index.
func (d currentDirectory) CatchUp(ctx context.Context) error { return d.planner.CatchUp(ctx) }

// openAuthorities reads the CAs of client certificates and their revocation lists from files. Without a file it returns nil.
func openAuthorities(s *Server, setting, file, revoked string) (*admission.Authorities, error) {
	if file == "" {
		return nil, nil
	}
	a, err := admission.OpenAuthorities(setting, file, s.log)
	if err == nil && revoked != "" {
		err = a.OpenRevoked(revoked, s.now())
	}
	return a, err
}

// openSensuReceiver opens the receiver of Sensu agents' sessions if its listener is configured.
func (s *Server) openSensuReceiver(context.Context) (err error) {
	if s.cfg.SensuListen == "" || s.cfg.SensuListen == "off" {
		return nil
	}
	if s.sensuCA, err = openAuthorities(s, "--sensu-client", s.cfg.SensuClientCA, s.cfg.SensuClientCRL); err != nil {
		return err
	}
	s.bridge, err = sensu.New(sensu.Config{
		Config: s.sourceConfig(), Authorities: s.sensuCA,
		Limiter: s.sessions.Limiter(), Admission: s.sessions.Admission(), Archives: s.sessions.Archives(),
		Access: s.access, Intent: s.intent, View: eventIndex{s.view}, Checks: currentDirectory{s.directory, s.planner}, Handler: s.directory.Handler, HasPipeline: s.pipelines.HasPipeline,
		Limits: sensu.Limits{SessionLimits: sessionLimits(s.cfg), MessageBytes: int(s.cfg.MaxFrame)},
	})
	if err != nil {
		return err
	}
	s.agentSources = append(s.agentSources, s.bridge)
	s.registerTask(back, "Sensu's sessions", s.bridge.Run)
	s.registerTask(front, "Sensu's agents", s.serveSensu)
	return nil
}

// openZabbix returns a function that opens the source of Zabbix values. Senders and agents send them to a listener, if it is
// configured, and the server polls agents.
func openZabbix(s *Server) func(context.Context) error {
	return func(context.Context) error {
		listens := s.cfg.ZabbixListen != "" && s.cfg.ZabbixListen != "off"
		var authorities *admission.Authorities
		var err error
		if listens {
			if authorities, err = openAuthorities(s, "--zabbix-client", s.cfg.ZabbixClientCA, s.cfg.ZabbixClientCRL); err != nil {
				return err
			}
		}
		s.trapper, err = zabbix.New(zabbix.Config{
			Journal: s.journal, Nodes: currentDirectory{s.directory, s.planner}, View: s.view, LogPositions: s.metrics.LogPositions, Intent: s.intent, Limiter: s.sessions.Limiter(), Pressures: s.sessions.FillLevels(), Admission: s.sessions.Admission(),
			Namespaces:          func(from netip.Addr) []string { return directory.ZabbixNamespaces(s.directory, from) },
			CertificateRequired: func(namespace string) bool { return directory.ZabbixCertificateRequired(s.directory, namespace) },
			TLS:                 &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.authority.CertificateForAll}, Authorities: authorities,
			Discovered: discoveredItems(s.metrics), Polled: func() []model.NodeID { return directory.PolledNodes(s.directory) }, Dial: s.outbound.Dialer().DialContext,
			Now: s.now, Log: s.log, Registerer: s.registry,
		})
		if err != nil {
			return err
		}
		s.agentSources = append(s.agentSources, s.trapper)
		s.registerTask(front, "polls of Zabbix agents", s.trapper.Poll)
		if listens {
			s.registerTask(front, "Zabbix senders and agents", func(ctx context.Context) error { return s.trapper.Listen(ctx, s.zabbix) })
		}
		if authorities != nil {
			s.registerTask(back, "authorities of Zabbix senders and agents", func(ctx context.Context) error { return authorities.Run(ctx, s.now) })
		}
		return nil
	}
}

// openRudder returns a function that opens the receiver of Rudder agents if its listener is configured. The agents
// send inventories and runs.
func openRudder(s *Server) func(context.Context) error {
	return func(context.Context) error {
		if s.cfg.RudderListen == "" || s.cfg.RudderListen == "off" {
			return nil
		}
		relay, err := rudder.New(rudder.Config{
			Journal: s.journal, Nodes: currentDirectory{s.directory, s.planner}, View: s.view, Inventories: s.inventories, Runs: s.compliance, Intent: s.intent, Limiter: s.sessions.Limiter(), Pressures: s.sessions.FillLevels(),
			Namespaces:  func(from netip.Addr) []string { return directory.RudderNamespaces(s.directory, from) },
			ChangesOnly: func(namespace string) bool { return directory.RudderChangesOnly(s.directory, namespace) },
			Stalled:     s.journal.LastStallEnd, Now: s.now, Log: s.log, Registerer: s.registry,
		})
		if err == nil {
			s.agentSources = append(s.agentSources, relay)
			config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.authority.GetCertificate}
			s.registerTask(front, "Rudder's agents", func(ctx context.Context) error {
				return serveHTTP(ctx, tls.NewListener(s.sessions.Admission().Limit(s.rudder), config), admission.WithConn, relay, s.log)
			})
		}
		return err
	}
}

// discoveredItems returns a function that finds the items made by discovery rules on a node.
func discoveredItems(v *metric.View) func(model.NodeID, string) []zabbix.DiscoveredItem {
	return func(node model.NodeID, key string) (list []zabbix.DiscoveredItem) {
		v.EachDiscoveredItem(node, key, func(definition model.DefinitionID, macros string, own int, of *model.Item) {
			one := zabbix.DiscoveredItem{Key: of.Key, Trapper: of.Trapper, Definition: definition, Macros: macros, DeclaredItems: own}
			if of.IsCollected() && of.HTTP == nil { // only agents of Muster send HTTP requests
				one.Interval = of.Interval
			}
			list = append(list, one)
		})
		return list
	}
}

// eventIndex reports for pairs of node and check whether an event exists. The receiver of Sensu agents'
// sessions asks.
type eventIndex struct{ *event.View }

// HasEvent reports whether a check on a node has an event.
func (v eventIndex) HasEvent(node model.NodeID, check model.CheckID) bool {
	_, ok := v.Get(node, model.CheckSource(check))
	return ok
}

// openAlerts opens the receiver of alerts from Prometheus and Grafana.
func (s *Server) openAlerts(context.Context) (err error) {
	s.alerts, err = alertmanager.New(alertmanager.Config{
		Access: s.access, Intent: s.intent, Plan: currentDirectory{s.directory, s.planner}, View: s.view,
		Write: s.recorder.RecordResults,
		Hit: func(node model.NodeID, name string, namespace model.NamespaceID, limit, reason string) {
			s.sessions.Limiter().Hit(&core.Node{ID: node, Name: name, Namespace: namespace}, limit, reason)
		},
		Charge: newSenderLimit(s), Now: s.now, Log: s.log, Registerer: s.registry,
	})
	if err == nil {
		s.registerTask(back, "alerts", s.alerts.Run)
	}
	return err
}

// openSamples returns a function that opens the receiver of metric samples. Prometheus sends the samples by remote
// write.
func openSamples(s *Server) func(context.Context) error {
	return func(context.Context) (err error) {
		s.samples, err = remotewrite.New(remotewrite.Config{
			Access: s.access, CheckNamespace: s.intent.CheckNamespace, Journal: s.journal, Charge: newSenderLimit(s), Now: s.now, Registerer: s.registry,
			ChargeSamples: func(namespace string, samples int) (reason string) {
				id, _ := s.directory.NamespaceByName(namespace)
				if debt := s.sessions.Limiter().ChargeSamples(id, "remote write", samples); debt.Wait > 0 {
					return debt.Reason()
				}
				return ""
			},
			Pressures: s.sessions.FillLevels(), Limits: remotewrite.Limits{Age: seriesLateWindow},
		})
		return err
	}
}

// newSenderLimit returns a function that charges a request's bytes to the limits of its namespace and sender.
// The function returns the reason to refuse the request, or "" to let it pass.
func newSenderLimit(s *Server) func(namespace, user string, bytes int) (reason string) {
	return func(namespace, user string, bytes int) (reason string) {
		id, _ := s.directory.NamespaceByName(namespace)
		if debt := s.sessions.Limiter().ChargeSender(id, user, bytes); debt.Wait > 0 {
			return debt.Reason()
		}
		return ""
	}
}

// endOutdatedSession ends the session of a node whose key, name or keepalive settings changed. The agent then reconnects with
// the new values. The former machine of the node is refused.
func (s *Server) endOutdatedSession(was, is intent.NodeInfo) {
	restartBridge := func() {
		if s.bridge != nil {
			s.bridge.Disconnect(is.ID)
		}
	}
	switch {
	case s.sessions == nil: // the server opens
	case was.Key != is.Key:
		s.sessions.EndReplacedSession(is.ID, agentNodes{s.intent, s.directory, &s.courier}.Retirement(uuid.Nil, was.Key))
		restartBridge()
	case was.Name != is.Name:
		restartBridge()
		s.sessions.Disconnect(is.ID, "changed", "the node was renamed to "+is.Name+": connect again")
	case was.KeepaliveDiffers(is): // a session of the bridge follows by itself
		s.sessions.Disconnect(is.ID, "changed", "the node's keepalive has changed: connect again")
	}
}

// remainingAbsenceOf returns how long a node must still be silent before another machine may take over its
// name. The node's keepalive decides.
func (s *Server) remainingAbsenceOf(node intent.NodeInfo) time.Duration {
	need := cmp.Or(node.Timeout, time.Duration(s.cfg.KeepaliveTimeout)) + time.Duration(s.cfg.ReconnectGrace)
	sum := s.view.Summaries([]model.NodeID{node.ID})[0]
	return sum.RemainingNameProtection(need, s.started, node.Written, s.now())
}

// agentNodes lets the receivers of agent sessions read and update nodes in the database and the planner's
// index.
type agentNodes struct {
	intent    *intent.Service
	directory *directory.Directory
	courier   **watchdog.ResultSender // points to nil until the watchdog is open
}

// Lookup returns the node with the uid that its agent's certificate contains. The uid of the watchdog belongs
// to the server's own node.
func (n agentNodes) Lookup(uid uuid.UUID) (core.Node, bool) {
	if uid == watchdog.UID {
		if *n.courier == nil {
			return core.Node{}, false
		}
		return core.Node{ID: model.ServerNode, Name: model.ServerNodeName, Namespace: model.DefaultNamespace, Key: (*n.courier).Key(), Visitor: true}, true
	}
	info, ok := n.intent.LookupNode(uid)
	if !ok {
		return core.Node{}, false
	}
	return core.Node{ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Key: info.Key, Keepalive: info.Interval, Timeout: info.Timeout, Warning: info.Warning, EveryKeepalive: info.Every}, true
}

// Retirement returns why a node or the key of its agent was retired, or "" if neither was.
func (n agentNodes) Retirement(uid uuid.UUID, key string) muster.Retirement {
	t, ok := n.intent.Tombstone(uid)
	if !ok {
		if t, ok = n.intent.TombstoneByKey(key); !ok {
			return muster.Retirement{}
		}
	}
	return muster.Retirement{Code: t.Cause, Sentence: t.Sentence(), Type: t.Hint()}
}

// FirstKey stores the public key of a node's agent when the node has its first session. It returns the key on
// record, and the other node that has the key already.
func (n agentNodes) FirstKey(uid uuid.UUID, key string) (onRecord, holder string) {
	return n.intent.RecordFirstKey(uid, key)
}

// Namespace returns the limits on results, values and bytes for a namespace and each of its nodes.
func (n agentNodes) Namespace(id model.NamespaceID) core.NamespaceLimits {
	name, _ := n.directory.NamespaceName(id)
	l := n.intent.NamespaceLimits(id)
	return core.NamespaceLimits{Namespace: name, ResultsPerSec: l.ResultsPerSec, NodeResultsPerSec: l.NodeResultsSec,
		ValuesPerSec: l.ValuesPerSec, NodeValuesPerSec: l.NodeValuesPerSec, ReportsPerSec: l.ReportsPerSec, NodeReportsPerSec: l.NodeReportsPerSec,
		BytesPerSec: l.BytesPerSec, NodeBytesPerSec: l.NodeBytesPerSec, OutputBytes: l.OutputBytes}
}

// RecordAgent stores the facts, labels and groups that an agent sends at the start of its session.
func (n agentNodes) RecordAgent(node core.Node, hello *wire.Hello) (limit, reason string) {
	info, ok := n.intent.LookupNode(hello.Node)
	if !ok {
		return "", ""
	}
	facts := hello.Facts
	if facts == nil {
		facts = map[string]string{}
	}
	facts["agentVersion"] = hello.Version
	return n.intent.RecordReport(info, intent.AgentReport{Facts: facts, Labels: hello.Labels, Groups: hello.Groups, KeepaliveReceivers: &model.KeepaliveReceivers{}})
}
