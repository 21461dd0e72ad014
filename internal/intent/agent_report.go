package intent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// AgentReport is the self-description of an agent: measured facts, labels of its configuration, and wanted groups.
type AgentReport struct {
	Facts, Labels map[string]string
	Groups        []string
	// Hears names the wanted receivers of its keepalive; nil: the agent names none.
	Hears *model.KeepaliveReceivers
}

// recordedReport returns the report in a node's row.
func recordedReport(spec *model.NodeSpec) AgentReport {
	return AgentReport{spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.AgentReceivers}
}

// writeTo writes the report into a node. Receivers that name nobody are left out.
func (s AgentReport) writeTo(spec *model.NodeSpec) {
	spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.AgentReceivers = s.Facts, s.Labels, s.Groups, s.Hears
	if s.Hears.Empty() {
		spec.AgentReceivers = nil
	}
}

// orElse fills the parts that were not accepted (nil) from the report on record.
func (s AgentReport) orElse(before AgentReport) AgentReport {
	if s.Facts == nil {
		s.Facts = before.Facts
	}
	if s.Labels == nil {
		s.Labels = before.Labels
	}
	if s.Groups == nil {
		s.Groups = before.Groups
	}
	if s.Hears == nil {
		s.Hears = before.Hears
	}
	return s
}

func (s AgentReport) equal(o AgentReport) bool {
	return maps.Equal(s.Facts, o.Facts) && maps.Equal(s.Labels, o.Labels) && slices.Equal(s.Groups, o.Groups) && s.Hears.Equal(o.Hears)
}

// fingerprint returns a hash that ignores the order of facts and labels.
func (s AgentReport) fingerprint() uint64 {
	sum := uint64(len(s.Facts))<<40 | uint64(len(s.Labels))<<20 | uint64(len(s.Groups))
	add := func(seed uint64, k, v string) {
		d := xxhash.NewWithSeed(seed)
		_, _ = d.WriteString(k)
		_, _ = d.WriteString("\x00")
		_, _ = d.WriteString(v)
		sum += d.Sum64()
	}
	for k, v := range s.Facts {
		add(0, k, v)
	}
	for k, v := range s.Labels {
		add(1, k, v)
	}
	for _, g := range s.Groups {
		add(2, g, "")
	}
	if !s.Hears.Empty() {
		add(3, strings.Join(s.Hears.Handlers, "\x00"), strings.Join(s.Hears.Pipelines, "\x00"))
	}
	return sum
}

// sortedGroups returns groups in order, each once; never nil.
func sortedGroups(groups []string) []string {
	sorted := append([]string{}, groups...)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// Bounds of a report: it is stored with its node and recorded with every change. A part over its bound is dropped, the
// recorded part stays, and the operator sees the reason.
const (
	maxFacts        = 256
	maxReportGroups = 64
	maxReportBytes  = 32 << 10 // of facts or of labels, keys and values
)

// rejectLabels returns why labels are not accepted; empty: they are.
func (r *repository) rejectLabels(namespace string, labels map[string]string) (reason string) {
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

// rejectGroups returns why groups are not accepted; empty: they are.
func rejectGroups(namespace string, groups []string) (reason string) {
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

// rejectFacts returns why facts are not accepted; empty: they are.
func rejectFacts(facts map[string]string) (reason string) {
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

// AgentReports keeps the self-descriptions of agents and writes them into their nodes' rows.
type AgentReports struct{ *repository }

// RecordReport keeps a report in memory; WriteReports writes it soon, if it differs from the record. A fleet that
// returns with known reports costs no query. Where a part is over a limit, limit (facts, labels or groups) and
// reason say so.
func (s *AgentReports) RecordReport(info NodeInfo, report AgentReport) (limit, reason string) {
	if report.Facts == nil {
		report.Facts = map[string]string{}
	}
	if report.Labels == nil {
		report.Labels = map[string]string{}
	}
	report.Groups = sortedGroups(report.Groups)
	if reason = rejectFacts(report.Facts); reason != "" {
		limit, report.Facts = "facts", nil
	}
	if why := s.rejectLabels(info.Namespace, report.Labels); why != "" {
		limit, reason, report.Labels = "labels", why, nil
	}
	if why := rejectGroups(info.Namespace, report.Groups); why != "" {
		limit, reason, report.Groups = "groups", why, nil
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

// ReportBacklog returns the nodes whose reports wait to be written, all nodes that enrolled, and the reports ever kept.
func (s *AgentReports) ReportBacklog() (waiting, nodes int, ever uint64) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	return len(s.nodes.reports), len(s.nodes.byUID), s.nodes.reportCount
}

// WriteReports writes reports every two seconds, many nodes in one transaction, until ctx ends.
func (s *AgentReports) WriteReports(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.writePending(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("cannot write facts of nodes; trying again", "err", err)
			}
		}
	}
}

// A node with ever-changing reports is written (and planned) at this rate at most: some changes at once, for a machine
// that boots, then one per reportInterval.
const (
	reportBurst    = 4
	reportInterval = 30 * time.Second
)

// reportPace is a node's used share of reportBurst at a time.
type reportPace struct {
	used float64
	at   time.Time
}

func (p reportPace) now(now time.Time) reportPace {
	return reportPace{max(0, p.used-float64(now.Sub(p.at))/float64(reportInterval)), now}
}

// maxReportBatch bounds the nodes of one transaction.
const maxReportBatch = 2000

// pendingBatch returns the reports and first keys for the next transaction. A newer report replaces an older one that
// still waits, so nothing outdated is written.
func (s *AgentReports) pendingBatch() (seen map[uuid.UUID]AgentReport, keys map[uuid.UUID]string) {
	now := s.opts.Now()
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	maps.DeleteFunc(s.nodes.paces, func(_ uuid.UUID, p reportPace) bool { return p.now(now).used == 0 })
	if len(s.nodes.paces) == 0 {
		s.nodes.paces = map[uuid.UUID]reportPace{}
	}
	seen, keys = map[uuid.UUID]AgentReport{}, map[uuid.UUID]string{}
	for uid, report := range s.nodes.reports {
		if s.nodes.paces[uid].now(now).used > reportBurst-1 {
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

// writePending writes batches until none is left.
func (s *AgentReports) writePending(ctx context.Context) error {
	for {
		seen, keys := s.pendingBatch()
		if len(seen)+len(keys) == 0 {
			return nil
		}
		written, err := s.writeBatch(ctx, seen, keys)
		if err != nil {
			return err // all reports stay for the next round
		}
		s.markWritten(seen, keys, written)
	}
}

// writeBatch writes the reports of a batch that differ from the rows, and returns their nodes. It holds writing, so
// that no row changes or moves between reading and writing.
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
		_, err = s.commitLocked(ctx, serverActor("facts from agents"), writes)
	}
	return written, err
}

// markWritten removes written reports and counts the writes of each node. A node with a newer report waits for the next round.
func (s *AgentReports) markWritten(seen map[uuid.UUID]AgentReport, keys map[uuid.UUID]string, written []uuid.UUID) {
	now := s.opts.Now()
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	for _, uid := range written {
		p := s.nodes.paces[uid].now(now)
		s.nodes.paces[uid] = reportPace{p.used + 1, now}
	}
	for uid, report := range seen {
		if now, ok := s.nodes.reports[uid]; ok && now.equal(report) {
			delete(s.nodes.reports, uid)
		}
	}
	for uid := range keys {
		delete(s.nodes.firstKeys, uid)
	}
	if len(s.nodes.reports) == 0 { // a map keeps the room that a fleet took which came at once
		s.nodes.reports = map[uuid.UUID]AgentReport{}
	}
	if len(s.nodes.firstKeys) == 0 {
		s.nodes.firstKeys = map[uuid.UUID]string{}
	}
}

// reportWrite returns the write of a node's row with its report; ok is false where the row has it already.
func (s *AgentReports) reportWrite(ctx context.Context, uid uuid.UUID, report AgentReport, machine string) (w Write, ok bool, err error) {
	info, ok := s.nodes.lookup(uid)
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
	if report = report.orElse(before); spec.Key != "" {
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
