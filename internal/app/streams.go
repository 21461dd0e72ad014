package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// openStreams reads how far handlers that are told of every result have been told.
func (s *Server) openStreams(context.Context) (err error) {
	s.streams, err = follow.Open(follow.Options{
		Journal: s.journal, View: s.view, Directory: s.planner, Dir: s.cfg.Data,
		Now: s.now, Logger: s.log, Registerer: s.registry,
	})
	if err == nil {
		s.consumers.Add(s.streams.Consumers)
	}
	return err
}

// skippedShown is how long the event says that a stream had to pass over results.
const skippedShown = 15 * time.Minute

// hasStreams says whether a handler is told of every result, or somebody was told that one is
// in trouble.
func (s *Server) hasStreams() bool {
	_, said := s.view.Get(model.ServerNode, model.StreamsCheck)
	return said || len(s.streams.States()) > 0
}

// streamsHealth is what the server says of handlers that are told of every result.
func (s *Server) streamsHealth() (model.Status, string) {
	states := s.streams.States()
	worst, texts := model.OK, []string(nil)
	for i := range states {
		if status, text := streamHealth(&states[i], s.now()); status != model.OK {
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
	text := fmt.Sprintf("handler %s is %s behind, by %s of the journal", st.Handler, st.Behind.Round(time.Second), model.Size(st.BehindBytes).About())
	if st.Trouble != "" {
		text += ": " + st.Trouble
	}
	switch {
	case !st.SkippedAt.IsZero() && now.Sub(st.SkippedAt) < skippedShown:
		return model.Critical, fmt.Sprintf("handler %s was too far behind at %s, and was never told of some results (in all %d): the journal waits for it up to a quarter of its budget (--journal-budget). Now: %s",
			st.Handler, st.SkippedAt.UTC().Format(time.DateTime+" UTC"), st.Skipped, text)
	case st.Behind > behindWarning:
		return model.Warning, text + ". Nothing is lost so far; the journal waits for it up to a quarter of its budget: muster describe handler " + st.Handler.Name + " -n " + st.Handler.Namespace
	}
	return model.OK, text
}

// streamOf is how far a handler is, as the API shows it.
func (s *Server) streamOf(handler route.Name) (v1.HandlerStream, bool) {
	st, ok := s.streams.State(handler)
	return v1.HandlerStream{
		BehindSeconds: st.Behind.Seconds(), BehindBytes: st.BehindBytes, Connections: st.Connections, Lines: st.Lines, Again: st.Again,
		Withheld: st.Withheld, Skipped: st.Skipped, SkippedAt: st.SkippedAt.UTC(), Trouble: st.Trouble, News: st.News,
	}, ok
}
