package app

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// waiter is told when its entry is durable.
type waiter chan committed

type committed struct {
	at  journal.Position
	err error
}

func (w waiter) Committed(_ uint64, at journal.Position, err error) { w <- committed{at, err} }

// append writes one record and waits until it is durable and applied.
func (s *Server) append(ctx context.Context, section journal.Section, r *wire.Record) error {
	w := make(waiter, 1)
	err := s.journal.Append(ctx, journal.Entry{Section: section, Data: wire.AppendRecord(nil, r), Waiter: w})
	if err != nil {
		return fmt.Errorf("append to the journal: %w", err)
	}
	select {
	case c := <-w:
		if c.err != nil {
			return fmt.Errorf("append to the journal: %w", c.err)
		}
		return s.view.WaitApplied(ctx, c.at)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sectionOf is the partition of a node that still exists, or everybody.
func (s *Server) sectionOf(node model.NodeID) journal.Section {
	if node == model.ServerNode {
		return 0
	}
	if a := s.planner.For(node); a != nil {
		return journal.Section(model.PartitionOf(a.UID))
	}
	return journal.All
}

// forget tells the view what is expected no more. The planner calls it before a
// change is in force.
func (s *Server) forget(list []plan.Forgotten) {
	const atOnce = 1000
	ctx := context.Background()
	for len(list) > 0 {
		n := min(len(list), atOnce)
		entries := make([]journal.Entry, n)
		for i, f := range list[:n] {
			r := wire.Record{Kind: wire.RecordForget, Node: f.Node, Forget: &f.Mark}
			section := journal.All
			switch {
			case f.UID != uuid.Nil:
				section = journal.Section(model.PartitionOf(f.UID))
			case f.Node != 0 && !f.Mark.Gone:
				section = s.sectionOf(f.Node)
			}
			entries[i] = journal.Entry{Section: section, Data: wire.AppendRecord(nil, &r)}
		}
		if err := s.journal.Append(ctx, entries...); err != nil {
			s.log.Error("what is expected no more could not be recorded; it will be at the next start", "err", err)
			return
		}
		list = list[n:]
	}
}

// markIntent records which intent is in force, so that a start after a crash knows
// from where to look for what was forgotten.
func (s *Server) markIntent(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := s.planner.Revision()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now := s.planner.Revision(); now != last {
			if err := s.append(ctx, journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: now}); err != nil {
				if ctx.Err() == nil {
					s.log.Warn("the intent in force could not be recorded; trying again", "err", err)
				}
				continue
			}
			last = now
		}
	}
}

// Act writes what an operator did to an event, before the API answers.
func (s *Server) Act(ctx context.Context, node model.NodeID, action wire.Action) error {
	return s.append(ctx, s.sectionOf(node), &wire.Record{Kind: wire.RecordAction, Node: node, Action: &action})
}

// own writes a result of the server about itself.
func (s *Server) own(ctx context.Context, check model.CheckID, status model.Status, output string) error {
	return s.append(ctx, s.sectionOf(model.ServerNode), &wire.Record{
		Kind: wire.RecordOwn, Node: model.ServerNode,
		Own: &wire.OwnResult{Chunk: model.BuiltinChunk(check), Status: status, Output: []byte(output)},
	})
}

// shed says in one event that many sessions vanished at once, before the silence of
// each could be noticed.
func (s *Server) shed(loss muster.Shed) {
	output := fmt.Sprintf("%d of %d agents lost their sessions within %s: look at this server's network first", loss.Lost, loss.Before, loss.Window)
	s.log.Error("many agents lost their sessions at once", "lost", loss.Lost, "before", loss.Before)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.own(ctx, model.SessionsCheck, model.Critical, output); err != nil {
			s.log.Error("event about lost sessions could not be recorded", "err", err)
		}
	}()
}

// watchOneself reports on the server itself: once a minute, and at once when
// something changes.
func (s *Server) watchOneself(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	said := map[model.CheckID]model.Status{}
	when := map[model.CheckID]time.Time{}
	calmSince := s.now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, report := range []struct {
			check model.CheckID
			look  func() (model.Status, string)
		}{{model.JournalCheck, s.journalHealth}, {model.HistoryCheck, s.historyHealth}} {
			status, output := report.look()
			if was, ok := said[report.check]; ok && was == status && s.now().Sub(when[report.check]) < time.Minute {
				continue
			}
			if s.journal.Stats().Blocked != nil {
				continue // nothing can be recorded now; readyz and the log say why
			}
			if err := s.own(ctx, report.check, status, output); err == nil {
				said[report.check], when[report.check] = status, s.now()
			}
		}
		// The sessions event ends when the agents have been calm for five minutes.
		if s.now().Sub(calmSince) > 5*time.Minute {
			if state, ok := s.view.Get(model.ServerNode, model.SessionsCheck); !ok || state.Status != model.OK {
				if s.now().Sub(time.Unix(0, state.Received)) > 5*time.Minute {
					_ = s.own(ctx, model.SessionsCheck, model.OK, fmt.Sprintf("%d agents are connected", s.sessions.Sessions()))
				}
			}
		}
	}
}

func (s *Server) journalHealth() (model.Status, string) {
	st := s.journal.Stats()
	share := 0.0
	if st.BudgetBytes > 0 {
		share = 100 * float64(st.SizeBytes) / float64(st.BudgetBytes)
	}
	text := fmt.Sprintf("journal uses %.0f%% of its budget of %s", share, model.Size(st.BudgetBytes))
	switch behind := s.setBack.text(); {
	case st.Blocked != nil:
		return model.Critical, "journal does not commit: " + st.Blocked.Error() + s.holdsBack()
	case behind != "":
		return model.Critical, behind + ". On the server's machine, with the server stopped: " + stoppedCommand(s.cfg, "restored")
	case share >= 90:
		return model.Critical, text + "; when it is full, agents are slowed down and keep their results" + s.holdsBack()
	case share >= 75:
		return model.Warning, text + s.holdsBack()
	}
	return model.OK, text
}

// holdsBack says what keeps the journal from being cut.
func (s *Server) holdsBack() string {
	if behind := s.reactor.Behind(); behind > behindWarning {
		why := fmt.Sprintf(". It cannot be cut: history is %s behind", behind.Round(time.Second))
		if err := s.history.Trouble(); err != nil {
			why += ", " + oneLine(err)
		}
		return why
	}
	return ". It is cut after each snapshot cycle (--snapshot-cycle " + s.cfg.SnapshotCycle.String() + "); raise --journal-budget if the disk has room"
}

// How long a change may wait for history before people are told.
const (
	behindWarning  = 30 * time.Second
	behindCritical = 5 * time.Minute
)

func (s *Server) historyHealth() (model.Status, string) {
	behind := s.reactor.Behind()
	text := fmt.Sprintf("history is %s behind: problems are told late", behind.Round(time.Second))
	if err := s.history.Trouble(); err != nil {
		text += "; " + oneLine(err)
	}
	switch {
	case behind > behindCritical:
		return model.Critical, text
	case behind > behindWarning:
		return model.Warning, text
	}
	return model.OK, "history keeps up"
}
