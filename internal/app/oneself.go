package app

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// own writes a result of the server about itself.
func (s *Server) own(ctx context.Context, check model.CheckID, status model.Status, output string) error {
	return s.ownOf(ctx, model.ServerNode, check, status, output)
}

// ownOf writes a result of the server about a node.
func (s *Server) ownOf(ctx context.Context, node model.NodeID, check model.CheckID, status model.Status, output string) error {
	return s.append(ctx, s.sectionOf(node), &wire.Record{
		Kind: wire.RecordOwn, Node: node,
		Own: &wire.OwnResult{Chunk: model.BuiltinChunk(check), Status: status, Output: []byte(output)},
	})
}

// shed says in one event that many sessions vanished at once, before the silence of
// each could be noticed.
func (s *Server) shed(loss muster.Shed) {
	output := fmt.Sprintf("%d of %d agents lost their sessions within %s: look at this server's network first", loss.Lost, loss.Before, loss.Window)
	s.log.Error("many agents lost their sessions at once", "lost", loss.Lost, "before", loss.Before)
	s.many.at(s.now(), output)
	s.tellOfMany(output)
}

// fellSilent says the same of nodes whose silence nobody foresaw: their connections hang, or
// they did not come back after this server did.
func (s *Server) fellSilent(at []time.Time) {
	all, sum := s.planner.Machines(), 0
	for _, when := range at {
		if n, over := s.many.add(when, 1, all); over {
			sum = max(sum, n)
		}
	}
	if sum == 0 {
		return
	}
	output := fmt.Sprintf("%d of %d nodes fell silent within %s: look at this server and its network first", sum, all, s.cfg.KeepaliveTimeout)
	if first := s.many.at(s.now(), output); first {
		s.log.Error("many nodes fell silent at once", "silent", sum, "nodes", all)
		s.tellOfMany(output)
	}
}

func (s *Server) tellOfMany(output string) {
	select {
	case s.lost <- output: // the session that noticed does not wait for the journal
	default: // one is about to be told
	}
}

// tellLost records what shed says.
func (s *Server) tellLost(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case output := <-s.lost:
			within, cancel := context.WithTimeout(ctx, time.Minute)
			if err := s.own(within, model.SessionsCheck, model.Critical, output); err != nil && ctx.Err() == nil {
				s.log.Error("event about lost sessions could not be recorded", "err", err)
			}
			cancel()
		}
	}
}

// watchOneself reports on the server itself: once a minute, and at once when
// something changes.
func (s *Server) watchOneself(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	began := s.now()
	said := map[model.CheckID]model.Status{}
	when := map[model.CheckID]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := s.now()
		for _, report := range []struct {
			check model.CheckID
			look  func() (model.Status, string)
		}{{model.JournalCheck, s.journalHealth}, {model.HistoryCheck, s.historyHealth}, {model.StreamsCheck, s.streamsHealth}} {
			if _, ok := said[report.check]; report.check == model.StreamsCheck && !ok && !s.hasStreams() {
				continue // most servers have none: no event about nothing
			}
			if s.journal.Stats().Blocked != nil {
				break // nothing can be recorded now; readyz and the log say why
			}
			status, output := report.look()
			if was, ok := said[report.check]; ok && was == status && now.Sub(when[report.check]) < time.Minute {
				continue
			}
			if err := s.own(ctx, report.check, status, output); err == nil {
				said[report.check], when[report.check] = status, now
			}
		}
		if now.Sub(began) > calm {
			s.endShedding(ctx, now)
		}
	}
}

// calm is how long no more sessions must have vanished before the event about them ends.
const calm = 5 * time.Minute

func (s *Server) endShedding(ctx context.Context, now time.Time) {
	event, ok := s.view.Get(model.ServerNode, model.SessionsCheck)
	if ok && (event.Status == model.OK || now.Sub(time.Unix(0, event.Received)) < calm) {
		return
	}
	_ = s.own(ctx, model.SessionsCheck, model.OK, fmt.Sprintf("%d agents are connected", s.connectedNodes())) // else in five seconds
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
		return model.Critical, text + "; agents send larger, rarer batches, and when it is full they keep their results" + s.holdsBack()
	case share >= 75:
		return model.Warning, text + s.holdsBack()
	}
	return model.OK, text
}

// holdsBack says what keeps the journal from being cut.
func (s *Server) holdsBack() string {
	lag, trouble := s.reactor.Lag(), s.history.Trouble()
	if lag.Age <= behindWarning && !lag.Again && (trouble == nil || lag.Age == 0) {
		if lowest, ok := s.consumers.Floor(); ok && lowest.Name != "snapshots" {
			return fmt.Sprintf(". It cannot be cut: %s still needs %s of it", lowest.Name, model.Size(s.journal.SizeAfter(lowest.At)).About())
		}
		return ". It is cut after each snapshot cycle (--snapshot-cycle " + s.cfg.SnapshotCycle.String() + ", less the fuller it is); raise --journal-budget if the disk has room"
	}
	return ". It cannot be cut: " + lagText(lag) + whatToDo(trouble)
}

// lagText is how far history is behind.
func lagText(lag react.Lag) string {
	text := fmt.Sprintf("history is %s behind, by %s of the journal", lag.Age.Round(time.Second), model.Size(lag.Bytes).About())
	if lag.Again {
		text += " (its queue overflowed: changes are made again from there)"
	}
	return text
}

// whatToDo about history that is behind, because its store does not answer or is slow.
func whatToDo(trouble error) string {
	if trouble != nil {
		return "; " + oneLine(trouble) + ". Nothing is lost, and once the store answers it goes on by itself"
	}
	return "; its store takes fewer changes than come. Nothing is lost, and it goes on by itself; if it lasts: a faster disk for history, --history-db on PostgreSQL, or checks that change their status less often"
}

// How long a change may wait for history before people are told.
const (
	behindWarning  = 30 * time.Second
	behindCritical = 5 * time.Minute
)

func (s *Server) historyHealth() (model.Status, string) {
	lag := s.reactor.Lag()
	text := lagText(lag) + ": problems are told late" + whatToDo(s.history.Trouble())
	switch {
	case lag.Age > behindCritical:
		return model.Critical, text
	case lag.Age > behindWarning:
		return model.Warning, text
	}
	return model.OK, "history keeps up"
}
