package explain

import (
	"cmp"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/api/nodes"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/window"
)

// lateAfter is how long a result may be on its way before it is late: the agent puts
// results together, and a busy machine takes its time.
const lateAfter = 10 * time.Second

// schedule says when the check runs, ran last and runs next.
func (c *chain) schedule(spec *model.CheckSpec) {
	if spec == nil {
		return
	}
	if spec.Passive {
		c.add("schedule", !spec.Disabled, "nobody runs it: its results come in from outside")
		return
	}
	text := "every " + spec.Interval.String()
	if spec.Cron != "" {
		text = "at " + spec.Cron
		if spec.TimeZone != "" {
			text += " " + spec.TimeZone
		}
	}
	if spec.RoundRobin {
		text += ", by one node of its targets in turn"
	}
	if spec.Timeout > 0 {
		text += ", ended after " + spec.Timeout.String()
	}
	if spec.TTL > 0 {
		text += ", missed after " + spec.TTL.String()
	}
	link := c.add("schedule", !spec.Disabled, "%s", text)
	if spec.Disabled || !c.lands {
		return
	}
	if !c.begun.IsZero() {
		link.Under = append(link.Under, v1.Link{Holds: true, Text: "its last run that is known began", At: c.begun})
	}
	if spec.RoundRobin && spec.Proxy == nil {
		return // when the turn comes to this node depends on the others
	}
	skew := c.skew
	if spec.RoundRobin {
		skew = 0 // the server says when
	}
	next := when.Next(time.Duration(spec.Interval), spec.Cron, spec.TimeZone, c.begun, c.Now(), skew)
	if next.IsZero() {
		return
	}
	c.cron = spec.Cron != ""
	about := "the next one is due"
	if spec.Cron != "" && spec.TimeZone == "" {
		about += " (by this server's time zone; the machine goes by its own)"
	}
	if skew.Abs() >= clockOff && spec.Cron != "" {
		about += " (the machine's clock is " + offText(c.skew) + " the server's)"
	}
	link.Under = append(link.Under, v1.Link{Holds: true, Text: about, At: next.UTC()})
}

// excepted is when the last time ends in which the check is not to run since its last run, by
// the definition that judged that; if it lasts, that is noted. Zero: there is none.
func (c *chain) excepted(st *event.State) (end time.Time) {
	if c.Chunk == nil {
		return end
	}
	chunk := c.Chunk(st.Chunk)
	if chunk == nil || len(chunk.Except) == 0 {
		return end
	}
	set, err := window.NewSet(chunk.Except)
	if err != nil {
		return end
	}
	end, _ = set.LastEnd(c.begun, c.Now())
	if end.After(c.Now()) {
		c.add("excepted", false, "it is not to run now (schedule.except), until").At = end.UTC()
	}
	return end
}

// late says that a result should be here and is not, and why that may be.
func (c *chain) late(spec *model.CheckSpec, st *event.State) {
	if spec == nil || spec.Interval <= 0 || !c.lands || c.begun.IsZero() {
		return
	}
	timeout := cmp.Or(time.Duration(spec.Timeout), min(time.Duration(spec.Interval), model.DefaultTimeout))
	due := c.begun.Add(time.Duration(spec.Interval))
	if end := c.excepted(st); end.After(due) {
		due = end.Add(time.Duration(spec.Interval))
	}
	if c.Now().Before(due.Add(timeout + lateAfter)) {
		return
	}
	link := c.add("late", false, "a result is missing: a run was due")
	link.At = due.UTC()
	session, connected := v1.AgentSession{}, false
	if c.Agent != nil {
		session, connected = c.Agent(c.node)
	}
	under := func(format string, args ...any) {
		link.Under = append(link.Under, v1.Link{Text: fmt.Sprintf(format, args...)})
	}
	switch told := session.Stats; {
	case c.stopped:
		under("the agent was stopped: it runs nothing")
	case c.gone:
		under("the agent is not connected: if it still runs, it keeps the results until it is")
	case !connected || told == nil:
	case nodes.Spooling(told):
		under("%d results wait on the machine, the oldest for %s", told.Spooled, model.Duration(time.Duration(told.OldestSeconds)*time.Second))
	case told.Skipped+told.Late > 0:
		under("the machine is behind: %d runs were skipped because the one before still ran, %d began late", told.Skipped, told.Late)
	}
	if told := session.Stats; told != nil && told.GaveWay+told.Refused+told.Lost > 0 {
		under("of its results %d gave way in the spool, %d were refused by the server, %d were not taken by its disk", told.GaveWay, told.Refused, told.Lost)
	}
}
