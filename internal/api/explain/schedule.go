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

// resultDelay is the delay of a result above which it is late: agents batch results, and a busy
// machine is slow.
const resultDelay = 10 * time.Second

// schedule adds the schedule with the last and the next run.
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
	if !c.lastRun.IsZero() {
		link.Under = append(link.Under, v1.Link{Holds: true, Text: "its last run that is known began", At: c.lastRun})
	}
	if spec.RoundRobin && spec.Proxy == nil {
		return // the turn of this node depends on the other members
	}
	skew := c.skew
	if spec.RoundRobin {
		skew = 0 // the server schedules round-robin runs
	}
	next := when.Next(time.Duration(spec.Interval), spec.Cron, spec.TimeZone, c.lastRun, c.Now(), skew)
	if next.IsZero() {
		return
	}
	c.cron = spec.Cron != ""
	about := "the next one is due"
	if spec.Cron != "" && spec.TimeZone == "" {
		about += " (by this server's time zone; the machine goes by its own)"
	}
	if skew.Abs() >= clockTolerance && spec.Cron != "" {
		about += " (the machine's clock is " + offsetText(c.skew) + " the server's)"
	}
	link.Under = append(link.Under, v1.Link{Holds: true, Text: about, At: next.UTC()})
}

// exceptionEnd returns the end of the last schedule exception since the last run; zero: none. It
// adds a link where the exception is in force now.
func (c *chain) exceptionEnd(st *event.State) (end time.Time) {
	chunk := c.Chunk(st.Chunk)
	if chunk == nil || len(chunk.Except) == 0 {
		return end
	}
	set, err := window.NewSet(chunk.Except)
	if err != nil {
		return end
	}
	end, _ = set.LastEnd(c.lastRun, c.Now())
	if end.After(c.Now()) {
		c.add("excepted", false, "it is not to run now (schedule.except), until").At = end.UTC()
	}
	return end
}

// late adds a link where a result is overdue, with possible causes.
func (c *chain) late(spec *model.CheckSpec, st *event.State) {
	if spec == nil || spec.Interval <= 0 || !c.lands || c.lastRun.IsZero() {
		return
	}
	timeout := cmp.Or(time.Duration(spec.Timeout), min(time.Duration(spec.Interval), model.DefaultTimeout))
	due := c.lastRun.Add(time.Duration(spec.Interval))
	if end := c.exceptionEnd(st); end.After(due) {
		due = end.Add(time.Duration(spec.Interval))
	}
	if c.Now().Before(due.Add(timeout + resultDelay)) {
		return
	}
	link := c.add("late", false, "a result is missing: a run was due")
	link.At = due.UTC()
	session, connected := c.Agent(c.node)
	under := func(format string, args ...any) {
		link.Under = append(link.Under, v1.Link{Text: fmt.Sprintf(format, args...)})
	}
	switch told := session.Stats; {
	case c.stopped:
		under("the agent was stopped: it runs nothing")
	case c.noAgent:
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
