package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
)

// fallbackInterval is for a check whose times cannot be read here (a time zone this
// machine does not know): it reports that.
const fallbackInterval = 5 * time.Minute

// check is one definition made ready to run on this node. It is immutable.
type check struct {
	chunk   *model.CheckChunk
	about   model.NodeID // the proxy node that this one is about; zero: the node itself
	run     model.ExpandedCommand
	problem string   // why it cannot run here: the result is UNKNOWN with this
	hide    []string // secrets in run.Env: of one run only
	past    *past
}

// past is what a check carries from run to run, whatever becomes of its definition.
type past struct {
	memory probe.Memory
	status atomic.Uint32 // of the last run, plus 1; zero: none yet
	lacks  atomic.Bool   // it did not run the last time because an asset was not here
}

// apply makes an assignment the one in force. Checks that stay keep their times and
// what they remember.
func (a *Agent) apply(held *link.Assignment) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = held
	own := subject{values: propertiesOf(held.Properties)}
	about := subjects(&held.Proxied)
	checks := make(map[schedule.Key]*check, len(held.Chunks))
	chunks := make(map[model.ChunkID]model.CheckID, len(held.Chunks))
	jobs := make([]schedule.Job, 0, len(held.Chunks))
	defined := checksOf(held.Chunks)
	for _, chunk := range defined {
		template, err := chunk.Template()
		for _, of := range subjectsOf(chunk, own, about) {
			c := prepare(chunk, template, err, of)
			key := schedule.Key{Check: chunk.Unit, About: of.node}
			if old, ok := a.checks[key]; ok {
				c.past = old.past
			} else {
				c.past = &past{}
			}
			job := a.job(c, key)
			if _, twice := checks[key]; !twice {
				jobs = append(jobs, job)
			} else { // the later definition counts
				at := slices.IndexFunc(jobs, func(j schedule.Job) bool { return j.Key == key })
				jobs[at] = job
			}
			checks[key] = c
		}
		chunks[chunk.ID] = chunk.Unit
	}
	if err := a.scheduler.Set(jobs); err != nil {
		return err
	}
	a.checks, a.chunks = checks, chunks
	a.secrets.Retain(defined)
	a.wantAssets(defined)
	return nil
}

// checksOf returns the chunks that are checks.
func checksOf(chunks []*model.Chunk) []*model.CheckChunk {
	checks := make([]*model.CheckChunk, 0, len(chunks))
	for _, chunk := range chunks {
		if c := chunk.AsCheck(); c != nil {
			checks = append(checks, c)
		}
	}
	return checks
}

// serverTime is the time by the server's clock, as far as it is known: that of this machine
// may be off.
func (a *Agent) serverTime() time.Time {
	now := a.cfg.Machine.Now()
	if ahead, ok := a.ServerOffset(); ok {
		now = now.Add(-ahead)
	}
	return now
}

// job says when a check runs.
func (a *Agent) job(c *check, key schedule.Key) schedule.Job {
	chunk := c.chunk
	job := schedule.Job{Key: key, Interval: chunk.Interval, Cron: chunk.Cron, Zone: chunk.TimeZone, OnCall: chunk.RoundRobin}
	if job.Cron != "" {
		if _, err := when.ParseCron(job.Cron, job.Zone); err != nil {
			c.problem = err.Error()
			job.Cron, job.Interval = "", fallbackInterval
		}
	} else if job.Interval <= 0 {
		c.problem = "the check has neither interval nor cron"
		job.Interval = fallbackInterval
	}
	if len(chunk.Except) > 0 {
		except, err := window.NewSet(chunk.Except)
		if err != nil {
			c.problem = err.Error()
		}
		job.Held = func() bool {
			_, inside := except.Active(a.serverTime())
			return inside
		}
	}
	job.Do = func(ctx context.Context) { a.runCheck(ctx, c) }
	return job
}

// prepare puts the properties of whom the check is about into a definition.
func prepare(chunk *model.CheckChunk, template *model.CommandTemplate, err error, of subject) *check {
	c := &check{chunk: chunk, about: of.node}
	if err == nil {
		c.run, err = template.Expand(of.values)
	}
	if of.node != 0 {
		if c.run.Env == nil {
			c.run.Env = map[string]string{}
		}
		c.run.Env[aboutVariable] = of.name
	}
	if err == nil && chunk.RunAs != "" && strings.TrimSpace(c.run.RunAs) == "" {
		// Empty would mean the agent's own user, root perhaps.
		c.problem = fmt.Sprintf("runAs %s is empty on this node: the check does not run", chunk.RunAs)
	}
	if err != nil {
		c.problem = err.Error()
		var missing *model.MissingError
		if errors.As(err, &missing) {
			c.problem += "\n  set it for all, a namespace, a group or this node (muster explain property), or write a default into the check: | default \"…\""
		}
	}
	return c
}

func propertiesOf(list []wire.Property) model.PropertyValues {
	return func(name string) ([]byte, string, bool) {
		i, ok := slices.BinarySearchFunc(list, name, func(p wire.Property, name string) int {
			switch {
			case p.Name < name:
				return -1
			case p.Name > name:
				return 1
			}
			return 0
		})
		if !ok {
			return nil, "", false
		}
		return list[i].Value, list[i].Error, true
	}
}
