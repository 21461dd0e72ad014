package intent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// AgentReport is what an agent says of its machine: measured facts, labels of its configuration,
// and groups that it wants to be in.
type AgentReport struct {
	Facts, Labels map[string]string
	Groups        []string
	// Hears is who it wants to hear of its keepalive; nil: it does not say.
	Hears *model.KeepaliveReceivers
}

// saidBy is what is on record of it.
func saidBy(spec *model.NodeSpec) AgentReport {
	return AgentReport{spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.AgentReceivers}
}

// over is what is on record after s was said: what of it was not taken stays as it was.
func (s AgentReport) over(before AgentReport) AgentReport {
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

// fingerprint tells what was said apart, whatever the order of facts and labels.
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

// sortedGroups is a list as it is kept: each once, in order; never nil.
func sortedGroups(groups []string) []string {
	sorted := append([]string{}, groups...)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// RecordReport notes what an agent said of itself; Run writes it soon, if it is new. A
// fleet that comes back with what it said before costs no look into the store. What is
// beyond a limit is not taken: limit (labels, facts or groups) and reason say so.
func (s *Service) RecordReport(info NodeInfo, said AgentReport) (limit, reason string) {
	if said.Facts == nil {
		said.Facts = map[string]string{}
	}
	if said.Labels == nil {
		said.Labels = map[string]string{}
	}
	said.Groups = sortedGroups(said.Groups)
	if reason = unsaidFacts(said.Facts); reason != "" {
		limit, said.Facts = "facts", nil
	}
	if why := s.unsaidLabels(info.Namespace, said.Labels); why != "" {
		limit, reason, said.Labels = "labels", why, nil
	}
	if why := unsaidGroups(info.Namespace, said.Groups); why != "" {
		limit, reason, said.Groups = "groups", why, nil
	}
	fingerprint := said.fingerprint()
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	if on, ok := s.nodes.byUID[info.UID]; ok && on.said == fingerprint {
		delete(s.nodes.seen, info.UID)
		return limit, reason
	}
	s.nodes.seen[info.UID] = said
	s.nodes.told++
	return limit, reason
}

// ReportBacklog says of how many nodes, of all that enrolled, Run has still to write what their
// agents said, and how often there was something to write.
func (s *Service) ReportBacklog() (waiting, nodes int, ever uint64) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	return len(s.nodes.seen), len(s.nodes.byUID), s.nodes.told
}

// WriteReports writes what agents said of themselves, many nodes in one transaction, until
// ctx ends.
func (s *Service) WriteReports(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.writeSeen(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("facts of nodes could not be written; trying again", "err", err)
			}
		}
	}
}

// A node that says another thing every minute is written, and planned, that often at
// most: some changes at once (a machine that boots), then one for each factsPace.
const (
	factsAtOnce = 4
	factsPace   = 30 * time.Second
)

// pace is how many of a node's factsAtOnce are used up, as of a time.
type pace struct {
	used float64
	at   time.Time
}

func (p pace) now(now time.Time) pace {
	return pace{max(0, p.used-float64(now.Sub(p.at))/float64(factsPace)), now}
}

// seenAtOnce bounds one transaction of facts.
const seenAtOnce = 2000

// unwritten is what one transaction may take now of what agents said, and of first keys.
// What a node says meanwhile takes the place of what it said before, so nothing is
// written that is no longer true.
func (s *Service) unwritten() (seen map[uuid.UUID]AgentReport, keys map[uuid.UUID]string) {
	now := s.opts.Now()
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	maps.DeleteFunc(s.nodes.paces, func(_ uuid.UUID, p pace) bool { return p.now(now).used == 0 })
	if len(s.nodes.paces) == 0 {
		s.nodes.paces = map[uuid.UUID]pace{}
	}
	seen, keys = map[uuid.UUID]AgentReport{}, map[uuid.UUID]string{}
	for uid, said := range s.nodes.seen {
		if s.nodes.paces[uid].now(now).used > factsAtOnce-1 {
			continue
		}
		if seen[uid] = said; len(seen) == seenAtOnce {
			break
		}
	}
	for uid, key := range s.nodes.first {
		if keys[uid] = key; len(keys) == seenAtOnce {
			break
		}
	}
	return seen, keys
}

func (s *Service) writeSeen(ctx context.Context) error {
	for {
		seen, keys := s.unwritten()
		if len(seen)+len(keys) == 0 {
			return nil
		}
		written, err := s.writeSaid(ctx, seen, keys)
		if err != nil {
			return err // nothing is struck out: the next time writes it
		}
		s.wrote(seen, keys, written)
	}
}

// writeSaid writes some of it, and returns of which nodes something was new. It holds
// writing, so that no row is another, or elsewhere, when it is written than when it was read.
func (s *Service) writeSaid(ctx context.Context, seen map[uuid.UUID]AgentReport, keys map[uuid.UUID]string) (written []uuid.UUID, err error) {
	all := maps.Clone(seen)
	for uid := range keys {
		all[uid] = seen[uid]
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	var writes []Write
	for uid, said := range all {
		write, ok, err := s.seenWrite(ctx, uid, said, keys[uid])
		if err != nil {
			return nil, err
		}
		if ok {
			writes, written = append(writes, write), append(written, uid)
		}
	}
	if len(writes) > 0 {
		_, err = s.commitHeld(ctx, server("facts from agents"), writes)
	}
	return written, err
}

// wrote strikes out what was written, and counts the writes of each node. A node that
// said another thing meanwhile waits for the next round.
func (s *Service) wrote(seen map[uuid.UUID]AgentReport, keys map[uuid.UUID]string, written []uuid.UUID) {
	now := s.opts.Now()
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	for _, uid := range written {
		p := s.nodes.paces[uid].now(now)
		s.nodes.paces[uid] = pace{p.used + 1, now}
	}
	for uid, said := range seen {
		if now, ok := s.nodes.seen[uid]; ok && now.equal(said) {
			delete(s.nodes.seen, uid)
		}
	}
	for uid := range keys {
		delete(s.nodes.first, uid)
	}
	if len(s.nodes.seen) == 0 { // a map keeps the room that a fleet took which came at once
		s.nodes.seen = map[uuid.UUID]AgentReport{}
	}
	if len(s.nodes.first) == 0 {
		s.nodes.first = map[uuid.UUID]string{}
	}
}

// seenWrite is the node's row with what its agent said; ok is false where that is so already.
func (s *Service) seenWrite(ctx context.Context, uid uuid.UUID, said AgentReport, machine string) (w Write, ok bool, err error) {
	info, ok := s.LookupNode(uid)
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
	before := saidBy(spec)
	if said = said.over(before); spec.Key != "" {
		machine = spec.Key
	}
	if said.equal(before) && spec.Key == machine {
		return w, false, nil
	}
	spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.Key = said.Facts, said.Labels, said.Groups, machine
	if spec.AgentReceivers = said.Hears; said.Hears.Empty() {
		spec.AgentReceivers = nil
	}
	body, err := encode(r)
	return Write{Key: key, Body: body, Expect: row.Revision}, true, err
}
