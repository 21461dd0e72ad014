package selfcheck

import (
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/model"
)

// skipShown is how long the event reports results that a stream skipped.
const skipShown = 15 * time.Minute

// hasStreams returns whether a handler gets every result, or the event `streams` exists.
func (m *Monitor) hasStreams() bool {
	_, exists := m.o.Event(model.ServerNode, model.StreamsCheck)
	return exists || len(m.o.Streams()) > 0
}

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
		return model.OK, "no handler is told of every result"
	}
	return model.OK, fmt.Sprintf("all handlers that are told of every result keep up: %d", len(states))
}

func streamHealth(st *follow.State, now time.Time) (model.Status, string) {
	text := fmt.Sprintf("handler %s is %s behind, by %s of the journal", st.Handler, st.Behind.Round(time.Second), model.Size(st.BehindBytes).Approximate())
	if st.Trouble != "" {
		text += ": " + st.Trouble
	}
	switch {
	case !st.SkippedAt.IsZero() && now.Sub(st.SkippedAt) < skipShown:
		return model.Critical, fmt.Sprintf("handler %s was too far behind at %s, and was never told of some results (in all %d): the journal waits for it up to a quarter of its budget (--journal-budget). Now: %s",
			st.Handler, st.SkippedAt.UTC().Format(time.DateTime+" UTC"), st.Skipped, text)
	case st.Behind > LagWarning:
		return model.Warning, text + ". Nothing is lost so far; the journal waits for it up to a quarter of its budget: muster describe handler " + st.Handler.Name + " -n " + st.Handler.Namespace
	}
	return model.OK, text
}
