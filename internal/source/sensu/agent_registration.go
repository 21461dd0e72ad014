package sensu

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// register registers the session under its node, after the first message has described the machine. It creates the
// node if the node does not exist.
func (x *session) register(received *sensuwire.ReceivedEvent, keepalive bool) error {
	m, err := received.ReadMachine()
	if err != nil {
		return err
	}
	s := x.srv
	stranger := x.externalAgent()
	stranger.AgentReport = agentReportOf(m)
	_, known := s.cfg.Intent.LookupNode(x.UID)
	if m.Deregister {
		stranger.Lifecycle = s.ephemeralLifecycle(m, received, keepalive)
		if !known {
			x.warnUnusableHandlers(stranger.Lifecycle)
		}
	}
	by := intent.Actor{User: x.user.Name, Address: x.Conn.NetConn().RemoteAddr().String(), Message: "the Sensu agent of the node connected"}
	info, err := s.cfg.Intent.RegisterExternal(s.life.Base, by, stranger)
	if err != nil {
		return err
	}
	if err := s.checkNodeEligible(stranger); err != nil {
		return err
	}
	registered := !known && s.readsEvents(x.namespace, "registration")
	if registered { // its event has the node's name
		if err := s.cfg.Checks.CatchUp(s.life.Base); err != nil {
			return err
		}
	}
	x.Node = s.nodeWithKeepalive(&info, received, keepalive)
	x.ID, x.Section = s.cfg.Rand(), core.SectionOf(x.UID)
	x.Budget.Open(s.cfg.Limiter, &x.Node)
	x.departure = agentDeparture{requested: m.Deregister, ephemeral: m.Deregister && info.ForgetAfter > 0}
	x.keepalive = keepaliveTimesOf(&x.Node)
	x.shortenDeadAfter()
	x.sent = s.registry.sentSecretsOf(info.ID, x.proven)
	older, ok := s.registry.swapSession(x, wire.StreamID(s.cfg.Rand()))
	if !ok {
		return model.Errorf(model.Conflict, "this agent has another connection, which is newer or proves the machine's identity by its certificate")
	}
	var base *core.Session
	if older != nil {
		base = &older.Session
	}
	entries := x.BeginEntries(x.encodeSessionRecord(wire.SessionRecord{Start: true, Registered: registered}), nil, base, func() []byte {
		_ = older.Conn.Close()
		return older.encodeSessionRecord(wire.SessionRecord{})
	})
	if err := s.cfg.Journal.Append(s.life.Base, entries...); err != nil {
		s.registry.removeSession(x)
		return model.Errorf(model.Unavailable, "the server cannot write the session's start to its journal now")
	}
	x.registered = true
	x.recordMachine(received, keepalive)
	x.planJobs() // before the next message: results that the agent has spooled follow this one
	return nil
}

// checkUnique refuses a machine while a connected machine of the same name answers a ping. A machine that lost its
// network or restarted gets in, because the connection of its earlier boot does not answer. A proven identity
// displaces an unproven one, and never gives way to one.
func (s *Server) checkUnique(ctx context.Context, m *intent.ExternalAgent, nc net.Conn, proven bool) error {
	node, ok := s.cfg.Intent.LookupNode(m.UID())
	if !ok {
		return nil
	}
	older := s.registry.Get(node.ID)
	if older == nil || proven && !older.proven {
		return nil
	}
	if older.proven == proven {
		alive, ok := older.Alive(ctx, s.life.Base, s.cfg.Limits.Probe, func() { s.outbox.Add(older, duePing) })
		if !ok {
			return model.Errorf(model.Unavailable, "another new connection of agent %s is being authenticated", m.Name)
		}
		if !alive {
			return nil
		}
	}
	holder := older.Peer()
	if s.cfg.OnClone != nil {
		refused := core.Peer{Address: model.HostOf(nc.RemoteAddr().String()), Since: s.cfg.Now().Truncate(time.Second).UTC()}
		s.cfg.OnClone(core.Clone{Node: older.Node, Holder: holder, Refused: refused})
	}
	proves := ""
	if older.proven && !proven {
		proves = ", and its certificate proves that it is that machine"
	}
	return model.Errorf(model.Conflict, "another agent with the name %s is already connected, from %s%s", m.Name, holder, proves).
		WithHint("give one of them a name of its own: --name")
}

// recordMachine stores the facts, labels and groups that an agent reports about its machine. Only a keepalive
// names the handlers of the node's keepalive; an event names the handlers of its own check.
func (x *session) recordMachine(received *sensuwire.ReceivedEvent, keepalive bool) {
	m, err := received.ReadMachine()
	if err != nil {
		return
	}
	record := agentReportOf(m)
	if keepalive {
		x.machineSum = received.Sum
		pipelines, err := received.ReadPipelines()
		if err != nil {
			return
		}
		record.KeepaliveReceivers = &model.KeepaliveReceivers{Handlers: validNames(m.KeepaliveHandlers), Pipelines: validNames(pipelines)}
	}
	x.Mu.Lock()
	x.version, x.facts, x.redacted = "sensu-agent "+m.AgentVersion, record.Facts, redactedKeysOf(m)
	x.Mu.Unlock()
	if info, ok := x.srv.cfg.Intent.LookupNode(x.UID); ok {
		if limit, reason := x.srv.cfg.Intent.RecordReport(info, record); limit != "" {
			x.Budget.Hit(limit, reason)
		}
	}
}

// nodeWithKeepalive returns a node with its keepalive times. They come from its resource, the agent's settings
// (keepalive-interval and timeouts) or the server's defaults, in this order. An agent without a critical time-out is
// critical after the one that warns.
func (s *Server) nodeWithKeepalive(info *intent.NodeInfo, received *sensuwire.ReceivedEvent, keepalive bool) core.Node {
	n := core.Node{ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Keepalive: info.Interval, Timeout: info.Timeout, Warning: info.Warning,
		EveryKeepalive: len(s.cfg.Checks.Keepalive(info.ID).Pipelines) > 0}
	if keepalive {
		n.Keepalive = cmp.Or(n.Keepalive, boundedSeconds(received.Interval))
		if n.Timeout == 0 && received.TTL > 0 {
			n.Warning = cmp.Or(n.Warning, boundedSeconds(received.Timeout))
		}
		n.Timeout = cmp.Or(n.Timeout, criticalTimeout(received))
	}
	n.Keepalive = cmp.Or(n.Keepalive, s.cfg.Limits.Keepalive)
	least := n.Keepalive + n.Keepalive/2
	n.Timeout = max(cmp.Or(n.Timeout, s.cfg.Limits.Timeout), least)
	if n.Warning > 0 {
		n.Warning = max(n.Warning, least)
	}
	return n
}

// criticalTimeout returns after how long without a keepalive the status becomes critical, by the agent's own
// settings.
func criticalTimeout(received *sensuwire.ReceivedEvent) time.Duration {
	return boundedSeconds(cmp.Or(uint32(min(max(received.TTL, 0), 1<<31)), received.Timeout))
}

// boundedSeconds converts seconds to a duration between two seconds and one day. Zero stays zero.
func boundedSeconds(seconds uint32) time.Duration {
	if seconds == 0 {
		return 0
	}
	return min(max(time.Duration(seconds)*time.Second, 2*time.Second), 24*time.Hour)
}

// keepaliveTimes holds the interval and time-outs of a session's keepalives. The reader changes it, inside
// WithAppendLock.
type keepaliveTimes struct {
	interval, warning, timeout time.Duration
	every                      bool // pipelines evaluate each keepalive
}

// keepaliveTimesOf returns the keepalive times of a node.
func keepaliveTimesOf(n *core.Node) keepaliveTimes {
	return keepaliveTimes{interval: n.Keepalive, warning: n.Warning, timeout: n.Timeout, every: n.EveryKeepalive}
}

// updateKeepaliveTimes updates the session's keepalive times from the agent's keepalive or the node's resource. The
// journal gets the session's beginning again. If the journal fails, the next keepalive tries again.
func (x *session) updateKeepaliveTimes(received *sensuwire.ReceivedEvent) (begun bool) {
	info, ok := x.srv.cfg.Intent.LookupNode(x.UID)
	if !ok {
		return false
	}
	n := x.srv.nodeWithKeepalive(&info, received, true)
	k := keepaliveTimesOf(&n)
	if k == x.keepalive {
		return false
	}
	x.WithAppendLock(func() { // so that the mark comes before the marks of a later session
		before := x.keepalive
		x.keepalive = k
		if x.srv.cfg.Journal.Append(x.srv.life.Base, journal.Entry{Section: x.Section, Data: x.encodeSessionRecord(wire.SessionRecord{Start: true})}) != nil {
			x.keepalive = before
			return
		}
		x.shortenDeadAfter()
		begun = true
	})
	return begun
}

// shortenDeadAfter reduces the time after which the server closes the silent connection of an ephemeral node.
// The connection then closes before the keepalive is overdue.
func (x *session) shortenDeadAfter() {
	if x.departure.ephemeral {
		x.deadAfter.Store(int64(min(x.srv.cfg.Limits.DeadAfter, x.keepalive.timeout/4*3)))
	}
}

const (
	maxAddresses       = 32
	maxAnnotations     = 64
	maxAnnotationBytes = 512 // key and value
)

// agentReportOf converts a Sensu entity to the facts, labels and requested groups that an agent reports. Labels
// stay, subscriptions become requested groups, system and annotations become facts. Invalid labels and groups
// are dropped.
func agentReportOf(m *sensuwire.Machine) intent.AgentReport {
	received := intent.AgentReport{Facts: factsOf(m), Labels: map[string]string{}, Groups: []string{}, Entity: entityOf(m)}
	for key, value := range m.Labels {
		if model.LabelError(key, value) == nil {
			received.Labels[key] = value
		}
	}
	for _, s := range m.Subscriptions {
		if name := model.CleanName(s); name != "" && !strings.HasPrefix(s, "entity:") {
			received.Groups = append(received.Groups, name)
		}
	}
	return received
}

// entityOf encodes a machine as an entity in Sensu's JSON. It leaves out network interfaces without an address of
// their own: interfaces of containers come and go, and each change would be a write of the node.
func entityOf(m *sensuwire.Machine) []byte {
	kept := *m
	kept.System.Network.Interfaces = slices.DeleteFunc(slices.Clone(m.System.Network.Interfaces), func(i sensuwire.Interface) bool {
		return !slices.ContainsFunc(i.Addresses, func(text string) bool {
			p, err := netip.ParsePrefix(text)
			return err == nil && !p.Addr().IsLinkLocalUnicast()
		})
	})
	if list := kept.System.Network.Interfaces; len(list) > maxAddresses {
		kept.System.Network.Interfaces = list[:maxAddresses]
	}
	encoded, err := json.Marshal(&kept)
	if err != nil {
		panic("BUG: " + err.Error()) // texts and lists of texts have an encoding
	}
	return encoded
}

// redactedKeysOf returns the labels and annotations whose values the agent redacts, as labels.KEY and
// annotations.KEY.
func redactedKeysOf(m *sensuwire.Machine) (keys []string) {
	for field, pairs := range map[string]map[string]string{"labels": m.Labels, "annotations": m.Annotations} {
		for key, value := range pairs {
			if value == model.RedactedValue {
				keys = append(keys, field+"."+key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// validNames returns the valid names in a list from an agent, without duplicates.
func validNames(list []string) (names []string) {
	for _, received := range firstNames(list) {
		if name := model.CleanName(received); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// factsOf converts a machine's description to facts with the names that muster-agent uses.
func factsOf(m *sensuwire.Machine) map[string]string {
	y := &m.System
	f := map[string]string{}
	armVersion := ""
	if y.ARMVersion > 0 {
		armVersion = strconv.Itoa(int(y.ARMVersion))
	}
	for name, value := range map[string]string{
		"armVersion": armVersion, "hostname": y.Hostname, "os": y.OS, "distribution": y.Platform, "distributionVersion": y.PlatformVersion, "arch": y.Arch,
		"virtualisation": y.VMSystem, "cloud": strings.ToLower(y.CloudProvider), "agentVersion": "sensu-agent " + m.AgentVersion, "sensuEntity": m.Name,
	} {
		if value != "" {
			f[name] = value
		}
	}
	if list := reachableAddresses(y.Addresses()); list != "" {
		f["addresses"] = list
	}
	n := 0
	for key, value := range m.Annotations {
		if n < maxAnnotations && len(key)+len(value) <= maxAnnotationBytes {
			f["annotation."+key] = value
			n++
		}
	}
	return f
}

// reachableAddresses returns a machine's addresses without loopback and link-local addresses, IPv4 first.
func reachableAddresses(networks []string) string {
	var ipv4, ipv6 []string
	for _, text := range networks {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() || len(ipv4)+len(ipv6) == maxAddresses {
			continue
		}
		if p.Addr().Is4() {
			ipv4 = append(ipv4, p.Addr().String())
		} else {
			ipv6 = append(ipv6, p.Addr().String())
		}
	}
	return strings.Join(append(ipv4, ipv6...), ",")
}

// agentDeparture says whether a disconnected agent counts as stopped on purpose, and whether the server deletes
// its node.
type agentDeparture struct {
	requested bool // the agent has the setting deregister
	ephemeral bool // the node is deleted when the agent stops
}

// ephemeralLifecycle returns the lifecycle of a node that is deleted when its keepalive turns critical. Its agent has
// the setting deregister. The handler that the agent names is notified, if it is in the agent's namespace: CleanName
// removes the slash that would name another one.
func (s *Server) ephemeralLifecycle(m *sensuwire.Machine, received *sensuwire.ReceivedEvent, keepalive bool) *model.Lifecycle {
	silence := s.cfg.Limits.Timeout
	if keepalive {
		silence = cmp.Or(criticalTimeout(received), silence)
	}
	l := &model.Lifecycle{Ephemeral: true, ForgetAfter: model.Duration(max(silence, time.Minute))}
	if name := model.CleanName(m.Deregistration.Handler); name != "" {
		l.Handlers = []string{name}
	}
	return l
}

// readsEvents reports whether a pipeline generated for a handler gives the handler events in Sensu's format.
func (s *Server) readsEvents(namespace, handler string) bool {
	return s.cfg.HasPipeline(route.Name{Namespace: namespace, Name: model.SensuPipeline(handler)})
}

// warnUnusableHandlers logs which deregistration handlers of a node do not exist or send no notifications. The node is
// created all the same: its message waits until the handler is applied, or becomes a dead letter.
func (x *session) warnUnusableHandlers(l *model.Lifecycle) {
	for _, name := range l.Handlers {
		if x.srv.readsEvents(x.namespace, name) {
			continue
		}
		spec, ok := x.srv.cfg.Handler(x.namespace, name)
		reason := "the handler does not exist: apply the handler, then the server sends the waiting message"
		if ok {
			service := spec.ProblemService()
			if service == "" {
				continue
			}
			reason = service + " accepts only problems: use a handler with command, webhook, email or a chat"
		}
		x.srv.logUnusableHandlers.Do(func() {
			x.srv.cfg.Log.Warn("cannot notify the deregistration handler of a Sensu agent; at most one line a minute, muster describe node shows it for each node",
				"entity", x.entity, "namespace", x.namespace, "handler", name, "reason", reason)
		})
	}
}
