package intent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// AgentReport is an agent's report about its node. It has measured facts, configured labels and requested groups.
type AgentReport struct {
	Facts, Labels map[string]string
	Groups        []string
	// KeepaliveReceivers names the handlers and pipelines that the agent wants for its node's keepalive event; nil: the agent names
	// none.
	KeepaliveReceivers *model.KeepaliveReceivers
	// Entity is the agent's entity in Sensu's JSON; nil: the agent is not Sensu's.
	Entity json.RawMessage
}

// recordedReport returns the last agent report that the spec of a stored Node resource contains.
func recordedReport(spec *model.NodeSpec) AgentReport {
	return AgentReport{spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.AgentReceivers, spec.AgentEntity}
}

// writeTo copies the agent's report (facts, labels, groups and others) into the spec of its Node resource. An
// empty list of keepalive receivers is left out.
func (s AgentReport) writeTo(spec *model.NodeSpec) {
	spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.AgentReceivers, spec.AgentEntity = s.Facts, s.Labels, s.Groups, s.KeepaliveReceivers, s.Entity
	if s.KeepaliveReceivers.Empty() {
		spec.AgentReceivers = nil
	}
}

// withStoredParts replaces the rejected fields of an agent's report, such as labels, by the previously stored
// values. A rejected part is a nil field.
func (s AgentReport) withStoredParts(before AgentReport) AgentReport {
	if s.Facts == nil {
		s.Facts = before.Facts
	}
	if s.Labels == nil {
		s.Labels = before.Labels
	}
	if s.Groups == nil {
		s.Groups = before.Groups
	}
	if s.KeepaliveReceivers == nil {
		s.KeepaliveReceivers = before.KeepaliveReceivers
	}
	if s.Entity == nil {
		s.Entity = before.Entity
	}
	return s
}

// equal reports whether two agent reports have the same facts, labels, groups, keepalive handlers and Sensu entity
func (s AgentReport) equal(o AgentReport) bool {
	return maps.Equal(s.Facts, o.Facts) && maps.Equal(s.Labels, o.Labels) && slices.Equal(s.Groups, o.Groups) && s.KeepaliveReceivers.Equal(o.KeepaliveReceivers) && bytes.Equal(s.Entity, o.Entity)
}

// fingerprint returns a hash of the agent's report. By the hash the server recognizes an unchanged report. The order
// of facts and labels does not change the hash.
func (s AgentReport) fingerprint() uint64 {
	sum := uint64(len(s.Facts))<<40 | uint64(len(s.Labels))<<20 | uint64(len(s.Groups))
	addPair := func(seed uint64, k, v string) {
		d := xxhash.NewWithSeed(seed)
		_, _ = d.WriteString(k)
		_, _ = d.WriteString("\x00")
		_, _ = d.WriteString(v)
		sum += d.Sum64()
	}
	for k, v := range s.Facts {
		addPair(0, k, v)
	}
	for k, v := range s.Labels {
		addPair(1, k, v)
	}
	for _, g := range s.Groups {
		addPair(2, g, "")
	}
	if !s.KeepaliveReceivers.Empty() {
		addPair(3, strings.Join(s.KeepaliveReceivers.Handlers, "\x00"), strings.Join(s.KeepaliveReceivers.Pipelines, "\x00"))
	}
	if len(s.Entity) > 0 {
		addPair(4, string(s.Entity), "")
	}
	return sum
}

// sortedGroups returns group names in order and without repetitions. The result is never nil.
func sortedGroups(groups []string) []string {
	sorted := append([]string{}, groups...)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// Bounds of an agent's report. The server stores the report with the node and records each change of it. Facts, labels
// or groups over their bound are dropped, the recorded ones stay, and the operator sees the reason.
const (
	maxFacts        = 256
	maxReportGroups = 64
	maxReportBytes  = 32 << 10 // of facts or of labels, keys and values
)

// labelRejection returns why the labels in an agent's report are rejected, or an empty text. The text is empty if the
// labels are accepted.
func (r *repository) labelRejection(namespace string, labels map[string]string) (reason string) {
	if most := r.namespaces.limitsByName(namespace).Labels; most > 0 && len(labels) > most {
		return fmt.Sprintf("the agent sent %d labels, namespace %s allows %d", len(labels), namespace, most)
	}
	size := 0
	for key, value := range labels {
		if err := model.LabelError(key, value); err != nil {
			return fmt.Sprintf("the agent sent an invalid label: %v", err)
		}
		size += len(key) + len(value)
	}
	if size > maxReportBytes {
		return fmt.Sprintf("the agent sent %d bytes of labels, the limit is %d", size, maxReportBytes)
	}
	return ""
}

// groupRejection returns why the groups that an agent requests are rejected, or an empty text. The text is empty if
// the groups are accepted.
func groupRejection(namespace string, groups []string) (reason string) {
	if len(groups) > maxReportGroups {
		return fmt.Sprintf("the agent requests %d groups, the limit is %d", len(groups), maxReportGroups)
	}
	for _, group := range groups {
		ns, name := model.SplitRef(namespace, group)
		if err := model.NameError(name); err != nil {
			return fmt.Sprintf("the agent requests an invalid group: %v", err)
		}
		if ns != namespace && ns != model.SharedNamespaceName {
			return fmt.Sprintf("the agent requests group %s of another namespace", group)
		}
	}
	return ""
}

// factRejection returns why the facts in an agent's report are rejected, such as too many facts. The text is empty if
// the facts are accepted.
func factRejection(facts map[string]string) (reason string) {
	if len(facts) > maxFacts {
		return fmt.Sprintf("the agent sent %d facts, the limit is %d", len(facts), maxFacts)
	}
	size := 0
	for key, value := range facts {
		size += len(key) + len(value)
	}
	if size > maxReportBytes {
		return fmt.Sprintf("the agent sent %d bytes of facts, the limit is %d", size, maxReportBytes)
	}
	return ""
}

// AgentReports stores agents' reports in memory, and writes changed reports to the database.
type AgentReports struct{ *repository }

// RecordReport stores an agent's report in memory. WriteReports soon writes a changed report to the database. A fleet
// that returns with known reports costs no query. Where a part is over a limit, limit (facts, labels or groups) and
// reason say so.
func (s *AgentReports) RecordReport(info NodeInfo, report AgentReport) (limit, reason string) {
	if report.Facts == nil {
		report.Facts = map[string]string{}
	}
	if report.Labels == nil {
		report.Labels = map[string]string{}
	}
	report.Groups = sortedGroups(report.Groups)
	if reason = factRejection(report.Facts); reason != "" {
		limit, report.Facts = "facts", nil
	}
	if why := s.labelRejection(info.Namespace, report.Labels); why != "" {
		limit, reason, report.Labels = "labels", why, nil
	}
	if why := groupRejection(info.Namespace, report.Groups); why != "" {
		limit, reason, report.Groups = "groups", why, nil
	}
	if len(report.Entity) > maxReportBytes {
		report.Entity = nil
	}
	fingerprint := report.fingerprint()
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	if on, ok := s.nodes.byUID[info.UID]; ok && on.report == fingerprint {
		delete(s.nodes.reports, info.UID)
		return limit, reason
	}
	s.nodes.reports[info.UID] = report
	s.nodes.reportCount++
	return limit, reason
}

// PendingReports returns the number of agents' reports that wait to be written to the database. It also returns
// the number of enrolled nodes, and of all reports received since the start.
func (s *AgentReports) PendingReports() (waiting, nodes int, ever uint64) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	return len(s.nodes.reports), len(s.nodes.byUID), s.nodes.reportCount
}

// WriteReports writes changed agents' reports to the database every two seconds, until ctx ends. One transaction
// writes many reports.
func (s *AgentReports) WriteReports(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.writePending(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("cannot write the facts of nodes to the database; the server retries", "err", err)
			}
		}
	}
}

// A node with reports that keep changing is written at a limited rate. Up to reportBurst changes are written at once,
// for a machine that boots, then one change per reportInterval. A report larger than reportUnit counts once per
// reportUnit: the audit keeps each change with both reports.
const (
	reportBurst    = 4
	reportInterval = 30 * time.Second
	reportUnit     = 2 << 10 // bytes
)

// changeCost returns how much of a node's rate limit a changed report uses, depending on its size. The cost is
// 1, or more for a large report.
func (s AgentReport) changeCost() float64 {
	size := 0
	for _, m := range []map[string]string{s.Facts, s.Labels} {
		for k, v := range m {
			size += len(k) + len(v)
		}
	}
	size += len(s.Entity)
	return max(1, float64(size)/reportUnit)
}

// reportBudget has the used part of a node's rate limit for changed reports. The budget limits how often changed
// reports are written.
type reportBudget struct {
	used float64
	at   time.Time
}

// usedAt returns how much of a node's rate limit for changed reports is used at a given time. By then a part of
// the budget is available again.
func (p reportBudget) usedAt(refilled time.Time) reportBudget {
	return reportBudget{max(0, p.used-float64(refilled.Sub(p.at))/float64(reportInterval)), refilled}
}

// maxReportBatch bounds the nodes whose reports one transaction writes.
const maxReportBatch = 2000

// pendingBatch returns the agents' reports and the machine keys to write to the database in the next
// transaction. Both are keyed by node uid. A newer report of a node replaces an older pending one, so that
// nothing outdated is written.
func (s *AgentReports) pendingBatch() (seen map[uuid.UUID]AgentReport, keys map[uuid.UUID]string) {
	now := s.opts.Now()
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	maps.DeleteFunc(s.nodes.paces, func(_ uuid.UUID, p reportBudget) bool { return p.usedAt(now).used == 0 })
	if len(s.nodes.paces) == 0 {
		s.nodes.paces = map[uuid.UUID]reportBudget{}
	}
	seen, keys = map[uuid.UUID]AgentReport{}, map[uuid.UUID]string{}
	for uid, report := range s.nodes.reports {
		if s.nodes.paces[uid].usedAt(now).used > reportBurst-1 {
			continue
		}
		if seen[uid] = report; len(seen) == maxReportBatch {
			break
		}
	}
	for uid, key := range s.nodes.firstKeys {
		if keys[uid] = key; len(keys) == maxReportBatch {
			break
		}
	}
	return seen, keys
}

// writePending writes pending reports, batch by batch, until none is pending.
func (s *AgentReports) writePending(ctx context.Context) error {
	for {
		seen, keys := s.pendingBatch()
		if len(seen)+len(keys) == 0 {
			return nil
		}
		written, err := s.writeBatch(ctx, seen, keys)
		if err != nil {
			return err // all reports stay pending for the next round
		}
		s.markWritten(seen, keys, written)
	}
}

// writeBatch writes the changed reports of a batch in one transaction. It returns the written nodes. It holds the lock
// writing, so that no row changes or moves between reading and writing.
func (s *AgentReports) writeBatch(ctx context.Context, seen map[uuid.UUID]AgentReport, keys map[uuid.UUID]string) (written []uuid.UUID, err error) {
	all := maps.Clone(seen)
	for uid := range keys {
		all[uid] = seen[uid]
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	var writes []Write
	for uid, report := range all {
		write, ok, err := s.reportWrite(ctx, uid, report, keys[uid])
		if err != nil {
			return nil, err
		}
		if ok {
			writes, written = append(writes, write), append(written, uid)
		}
	}
	if len(writes) > 0 {
		_, err = s.commitLocked(ctx, serverActor("agents reported new facts"), writes)
	}
	return written, err
}

// markWritten removes written reports from memory, and counts the writes against the nodes' rate limits. A node
// with a newer report waits for the next round.
func (s *AgentReports) markWritten(seen map[uuid.UUID]AgentReport, keys map[uuid.UUID]string, written []uuid.UUID) {
	now := s.opts.Now()
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	for _, uid := range written {
		p := s.nodes.paces[uid].usedAt(now)
		s.nodes.paces[uid] = reportBudget{p.used + seen[uid].changeCost(), now}
	}
	for uid, report := range seen {
		if now, ok := s.nodes.reports[uid]; ok && now.equal(report) {
			delete(s.nodes.reports, uid)
		}
	}
	for uid := range keys {
		delete(s.nodes.firstKeys, uid)
	}
	if len(s.nodes.reports) == 0 { // a Go map keeps the memory of its largest size
		s.nodes.reports = map[uuid.UUID]AgentReport{}
	}
	if len(s.nodes.firstKeys) == 0 {
		s.nodes.firstKeys = map[uuid.UUID]string{}
	}
}

// reportWrite returns the database write that stores an agent's report with its node. ok is false if the database
// already has the report.
func (s *AgentReports) reportWrite(ctx context.Context, uid uuid.UUID, report AgentReport, machine string) (w Write, ok bool, err error) {
	info, ok := s.nodes.lookupUID(uid)
	if !ok {
		return w, false, nil
	}
	key := Key{"Node", info.Namespace, info.Name}
	row, err := s.opts.Store.Get(ctx, key)
	if model.ClassOf(err) == model.NotFound {
		return w, false, nil
	}
	if err != nil {
		return w, false, err
	}
	r, err := s.decode(row)
	if err != nil {
		return w, false, err
	}
	spec := r.Spec.(*model.NodeSpec)
	before := recordedReport(spec)
	if report = report.withStoredParts(before); spec.Key != "" {
		machine = spec.Key
	}
	if report.equal(before) && spec.Key == machine {
		return w, false, nil
	}
	spec.Key = machine
	report.writeTo(spec)
	body, err := encode(r)
	return Write{Key: key, Body: body, Expect: row.Revision}, true, err
}
