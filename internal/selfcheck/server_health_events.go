package selfcheck

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/store/history"
)

const (
	healthTick   = 5 * time.Second
	healthRepeat = time.Minute // after which an unchanged status is recorded again
)

// A change may wait this long for history before the event `history` opens.
const (
	lagWarning  = 30 * time.Second
	LagCritical = 5 * time.Minute
)

// clockAheadWarning is the lead of the journal's time over the clock from which on the event journal is a warning.
const clockAheadWarning = time.Minute

// serverEvent is a built-in event about the server's health, with the function that computes its status and
// text. It has the function that computes the event's status and text.
type serverEvent struct {
	check   model.CheckID
	examine func() (model.Status, string)
	seldom  bool // an event that was never needed is not recorded
}

// serverEvents returns the built-in events about the server, each with the function that computes its status. They
// are about its journal, history, files, streams of results to handlers, and roll-outs. A seldom one has no event
// until it is needed.
func (m *Monitor) serverEvents() [5]serverEvent {
	return [...]serverEvent{{model.JournalCheck, m.journalHealth, false}, {model.HistoryCheck, m.historyHealth, false},
		{model.FilesCheck, m.filesHealth, true}, {model.StreamsCheck, m.streamsHealth, len(m.o.Streams()) == 0}, {model.RolloutsCheck, m.rolloutsHealth, true}}
}

// filesHealth returns the status and text of the built-in event about replaced files in the data folder. The event
// reports files of the data folder that were replaced while the server runs.
func (m *Monitor) filesHealth() (model.Status, string) {
	if list := m.o.Files(); len(list) > 0 {
		return model.Critical, strings.Join(list, "\n")
	}
	return model.OK, "the files of the data folder are those that the server opened"
}

// rolloutsHealth returns the status and text of the built-in event named rollouts, about failed roll-outs. The
// event reports roll-outs that failed nodes have stopped.
func (m *Monitor) rolloutsHealth() (model.Status, string) {
	if list := m.o.Rollouts(); len(list) > 0 {
		return model.Critical, strings.Join(list, "\n")
	}
	return model.OK, "failures have stopped no roll-out"
}

// warnings returns the outputs of all built-in events about the server that are not OK now.
func (m *Monitor) warnings() (texts []string) {
	for _, r := range m.serverEvents() {
		if status, text := r.examine(); status != model.OK {
			texts = append(texts, text)
		}
	}
	return texts
}

// watchHealth records mass outages, and updates the built-in events about the server's health every minute. It
// records outages at once, and events once a minute and on each change of status. While the journal is blocked
// it records nothing: readyz and the log have the reason.
func (m *Monitor) watchHealth(ctx context.Context) error {
	tick := time.NewTicker(healthTick)
	defer tick.Stop()
	began := m.o.Now()
	type recorded struct {
		status model.Status
		at     time.Time
	}
	last := map[model.CheckID]recorded{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case text := <-m.outageTexts:
			m.recordSessionsEvent(ctx, text)
			continue
		case <-tick.C:
		}
		now := m.o.Now()
		for _, r := range m.serverEvents() {
			before, ok := last[r.check]
			status, text := r.examine()
			if r.seldom && !ok && status == model.OK {
				if _, exists := m.o.Event(model.ServerNode, r.check); !exists {
					continue
				}
			}
			if m.o.Journal().Blocked != nil {
				break
			}
			if ok && before.status == status && now.Sub(before.at) < healthRepeat {
				continue
			}
			if m.o.Record(ctx, model.ServerNode, r.check, status, text) == nil {
				last[r.check] = recorded{status, now}
			}
		}
		if now.Sub(began) > outageCalm {
			m.closeSessionsEvent(ctx, now)
		}
	}
}

// journalHealth returns the status and text of the built-in event named journal, about disk and clock. The
// journal is the server's write-ahead log.
func (m *Monitor) journalHealth() (model.Status, string) {
	st := m.o.Journal()
	share := 0.0
	if st.BudgetBytes > 0 {
		share = 100 * float64(st.SizeBytes) / float64(st.BudgetBytes)
	}
	text := fmt.Sprintf("journal uses %.0f%% of its budget of %s", share, model.Size(st.BudgetBytes))
	switch older := m.lostResultsText(); {
	case st.Blocked != nil:
		return model.Critical, "journal does not commit: " + st.Blocked.Error() + m.DeletionBlocker()
	case older != "":
		return model.Critical, older + ". On the server's machine, with the server stopped: " + m.o.RestoredCommand
	case st.ClockAhead > clockAheadWarning:
		return model.Warning, fmt.Sprintf("this machine's clock was ahead for a while. The time of the journal never goes back: until %[2]s, results and changes get a too late time, now by %[1]s. Nothing to do",
			model.RoundTimeSpan(st.ClockAhead), m.o.Now().Add(2*st.ClockAhead).UTC().Format(time.DateTime+" UTC"))
	case share >= 90:
		return model.Critical, text + "; agents send fewer, larger batches; when the journal is full, they spool their results" + m.DeletionBlocker()
	case share >= 75:
		return model.Warning, text + m.DeletionBlocker()
	}
	return model.OK, text
}

// DeletionBlocker returns why the journal cannot delete old segments now, as a sentence for an event's output.
// For a full disk it names the largest files; the text begins with a full stop, to follow another sentence.
func (m *Monitor) DeletionBlocker() string {
	if disk.IsFull(m.o.Journal().Blocked) {
		return ". " + m.o.FullDisk() + ". The server continues when the disk has free space"
	}
	lag, trouble := m.o.Lag(), m.o.Trouble()
	if lag.Age <= lagWarning && !lag.Overflowed && (trouble == nil || lag.Age == 0) {
		if name, bytes := m.o.Holder(); name != "" && name != "snapshots" {
			return fmt.Sprintf(". The journal cannot delete segments: %s still needs %s", name, model.Size(bytes).Approximate())
		}
		return ". The journal deletes segments after each snapshot cycle (--snapshot-cycle " + m.o.SnapshotCycle + ", sooner when the journal is fuller); raise --journal-budget if the disk has space"
	}
	return ". The journal cannot delete segments: " + historyLagText(lag) + historyLagAdvice(trouble)
}

// historyHealth returns the status and text of the built-in event named history, about the history store.
// History is the SQL store of problems.
func (m *Monitor) historyHealth() (model.Status, string) {
	lag := m.o.Lag()
	text := historyLagText(lag) + ": notifications are late" + historyLagAdvice(m.o.Trouble())
	switch {
	case lag.Age > LagCritical:
		return model.Critical, text
	case lag.Age > lagWarning:
		return model.Warning, text
	}
	if text := evictionText(m.o.History()); text != "" {
		return model.Warning, text
	}
	return model.OK, "history is up to date"
}

// evictionText explains why history removed rows before the end of their retention, with a command for the
// operator. It returns "" if no row is missing or space is free again.
func evictionText(use history.Usage) string {
	if use.Evicted == 0 || use.Bytes < use.Budget-use.Budget/16 {
		return ""
	}
	text := fmt.Sprintf("%s is full: to free space, the server deleted %s up to %s", use.Store, model.CountNoun(use.Evicted, "row"), use.Latest.UTC().Format(time.DateTime+" UTC"))
	if use.Node != "" {
		text += ", the last ones mostly of node " + use.Node + ", which held more than its share"
	}
	if use.DiskFull {
		return text + "; its disk is nearly full, so the file does not grow beyond " + model.Size(use.Budget).Approximate() + ". Free disk space"
	}
	return text + "; raise --history-budget (now " + model.Size(use.Budget).String() + "), or find what changes so often: muster report noise"
}

// historyLagText describes how far the history store is behind the journal.
func historyLagText(lag dispatch.Lag) string {
	text := fmt.Sprintf("history is %s behind, by %s of the journal", lag.Age.Round(time.Second), model.Size(lag.Bytes).Approximate())
	if lag.Overflowed {
		text += " (its queue overflowed: the server reads the changes from the journal again)"
	}
	return text
}

// historyLagAdvice returns advice about a history store that is slow or does not answer.
func historyLagAdvice(trouble error) string {
	if trouble != nil {
		return "; " + model.OneLine(trouble) + ". Nothing is lost; history continues when the store answers"
	}
	return "; its store accepts fewer changes than arrive. Nothing is lost, and history catches up. If the lag lasts: use a faster disk for history, --history-db on PostgreSQL, or checks that change their status less often"
}

// skipShown is how long the event reports results that a stream skipped.
const skipShown = 15 * time.Minute

// streamsHealth returns the status and text of the event about handlers that receive every result. The event is
// about handlers that receive every result.
func (m *Monitor) streamsHealth() (model.Status, string) {
	states := m.o.Streams()
	worst, texts := model.OK, []string(nil)
	for i := range states {
		if status, text := streamHealth(&states[i], m.o.Now()); status != model.OK {
			texts = append(texts, text)
			if worst != model.Critical {
				worst = status
			}
		}
	}
	switch {
	case worst != model.OK:
		return worst, strings.Join(texts, "\n")
	case len(states) == 0:
		return model.OK, "no handler receives every result"
	}
	return model.OK, fmt.Sprintf("all handlers that receive every result keep up: %d", len(states))
}

// streamHealth returns the status and text about one handler that receives every result. The text has the
// handler's delay.
func streamHealth(st *follow.State, now time.Time) (model.Status, string) {
	text := fmt.Sprintf("handler %s is %s behind, by %s of the journal", st.Handler, st.Lag.Round(time.Second), model.Size(st.BehindBytes).Approximate())
	if st.Trouble != "" {
		text += ": " + st.Trouble
	}
	switch {
	case !st.SkippedAt.IsZero() && now.Sub(st.SkippedAt) < skipShown:
		return model.Critical, fmt.Sprintf("handler %s was too far behind at %s and missed results (%d in total): the journal waits for a handler up to a quarter of its budget (--journal-budget). Now: %s",
			st.Handler, st.SkippedAt.UTC().Format(time.DateTime+" UTC"), st.Skipped, text)
	case st.Lag > lagWarning:
		return model.Warning, text + ". Nothing is lost yet; the journal waits for the handler up to a quarter of its budget: muster describe handler " + st.Handler.Name + " -n " + st.Handler.Namespace
	}
	return model.OK, text
}

// ReportLostResults reports that the server has lost acknowledged results of an agent, for example by an old
// backup. A restore of older data causes such a loss. It is muster.Config.OnOlderData.
func (m *Monitor) ReportLostResults(node core.Node) {
	m.mu.Lock()
	first := m.agentsAhead == 0
	if m.agentsAhead++; first {
		m.firstAhead = node.Name
	}
	m.mu.Unlock()
	if first {
		m.o.Log.Error("an agent has acknowledgements for signals that the server does not have: the server's data is an older copy, or its last records are lost",
			"node", node.Name, "type", m.o.RestoredCommand)
	}
}

// lostResultsText returns the warning that the server has lost acknowledged results of agents, or an empty text. See
// ReportLostResults.
func (m *Monitor) lostResultsText() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agentsAhead == 0 {
		return ""
	}
	return fmt.Sprintf("agents (%d, the first was %s) have acknowledgements for signals that the server does not have: the server's data is an older copy, or its last records are lost", m.agentsAhead, m.firstAhead)
}
