package cli

import (
	"fmt"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// streamBehind is how far a handler is that is told of every result, in a few words.
func streamBehind(s *v1.HandlerStream) string {
	switch {
	case s.BehindBytes == 0 && s.Trouble == "":
		return "up to date"
	case s.Trouble != "":
		return "STUCK, " + behindText(s)
	}
	return behindText(s)
}

func behindText(s *v1.HandlerStream) string {
	return fmt.Sprintf("%s behind", time.Duration(s.BehindSeconds*float64(time.Second)).Round(time.Second))
}

func (a *app) describeStream(s *v1.HandlerStream) {
	text := streamBehind(s)
	if s.BehindBytes > 0 {
		text += fmt.Sprintf(", by %s of the journal", model.Size(s.BehindBytes).About())
	}
	a.field("is", "%s", text)
	if s.Trouble != "" {
		a.field("because", "%s", clean(s.Trouble, false))
	}
	a.field("wrote", "%s over %s since the server started", model.Counted(s.Lines, "line"), model.Counted(s.Connections, "connection"))
	if s.Again > 0 {
		a.field("again", "connections broke, and what was written lately came again: %s", model.Counted(s.Again, "time"))
	}
	if s.Withheld > 0 {
		a.field("withheld", "%s of namespaces of which nothing is sent (notifications: shadow)", model.Counted(s.Withheld, "result"))
	}
	if s.Skipped > 0 || !s.SkippedAt.IsZero() {
		a.field("passed over", "%s that it was never told of, because it was too far behind; last %s ago", model.Counted(s.Skipped, "result"), age(a.Now(), s.SkippedAt))
	}
	if s.News != "" {
		a.field("began", "%s", clean(s.News, false))
	}
}
