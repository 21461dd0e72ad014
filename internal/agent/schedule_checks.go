package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/asset"
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
)

// fallbackInterval is the interval of a check whose schedule is invalid on this machine, for example by an
// unknown time zone. Each result reports the fault.
const fallbackInterval = 5 * time.Minute

// checks schedules the assigned checks, downloads their assets and spools their results. The spool is the log of
// unsent results. mu guards the two maps and is never held during a run.
type checks struct {
	agent       *Agent
	runner      *run.Runner
	scheduler   *schedule.Scheduler
	assets      *asset.Cache
	maxOutput   atomic.Int64  // bytes of one result that the server accepts; zero: not known yet
	lostResults atomic.Uint64 // results that the spool refused
	arrivals    atomic.Uint64 // archives of assets that have become ready

	mu                sync.Mutex
	byKey             map[schedule.Key]*check
	checkOfDefinition map[model.DefinitionID]model.CheckID // requests name definitions
}

// check is a check as prepared for one node, with all node properties filled in. It is immutable.
type check struct {
	definition    *model.CheckDefinition
	proxyNode     model.NodeID // the proxy node of its results; zero: this node
	command       model.ExpandedCommand
	problem       string   // the reason why the check cannot run here; its result is UNKNOWN with this text
	hiddenSecrets []string // secrets in command.Env; of one run only
	state         *checkState
}

// checkState is the memory of a check from run to run, kept also when its definition changes.
type checkState struct {
	memory       probe.SavedState
	status       atomic.Uint32              // of the last run, plus 1; zero: no run yet
	missingAsset atomic.Bool                // the last run failed because an asset was missing
	scraped      atomic.Pointer[[]byte]     // samples of the last scrape; nil: none yet
	last         atomic.Pointer[run.Result] // of a check whose command reads the last event; nil: no run yet
}

// openSchedulerAndAssets creates the scheduler of checks and opens the cache of assets.
func (c *checks) openSchedulerAndAssets(node uuid.UUID) (err error) {
	cfg := &c.agent.cfg
	c.scheduler = schedule.New(schedule.Config{
		Node: node, MaxConcurrent: cfg.Commands.MaxConcurrent, FirstWithin: cfg.FirstWithin, Grace: cfg.StopGrace,
		Boot: func() time.Duration { return time.Duration(cfg.Machine.BootMs()) * time.Millisecond },
		Now:  cfg.Machine.Now,
	})
	c.assets, err = asset.Open(asset.Config{
		Dir: cfg.AssetDir, Bytes: cfg.AssetBytes, Fetch: c.agent.fetchAsset, Ready: c.retryWithAsset, Log: cfg.Log,
	})
	return err
}

// maxFirstDelay returns the maximum delay before a new check or item runs for the first time. Delays spread the first
// runs of a fleet.
func (c *checks) maxFirstDelay() time.Duration {
	return cmp.Or(c.agent.cfg.FirstWithin, 10*time.Second)
}

// findCheck returns the scheduled check whose compiled definition (sent by the server) has the given id. own is
// false for a proxy check, which runs for other nodes.
func (c *checks) findCheck(definition model.DefinitionID) (check model.CheckID, own, assigned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	check, assigned = c.checkOfDefinition[definition]
	_, own = c.byKey[schedule.Key{Check: check}]
	return check, own, assigned
}

// applyDefinitions replaces the scheduled checks by the checks in a new assignment (the node's list of checks). A
// check that stays assigned keeps its times and its checkState.
func (c *checks) applyDefinitions(a *link.Assignment, definitions []*model.Definition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	self := resultTarget{values: wire.PropertyLookup(a.Properties)}
	proxies := proxyTargets(&a.ProxyChecks)
	byKey := make(map[schedule.Key]*check, len(definitions))
	units := make(map[model.DefinitionID]model.CheckID, len(definitions))
	var keys []schedule.Key
	for _, definition := range definitions {
		definition := definition.AsCheck()
		units[definition.ID] = definition.Unit
		template, err := definition.Template()
		targets := []resultTarget{self}
		if definition.Proxy {
			targets = proxies[definition.ID]
		}
		for _, t := range targets {
			if definition.OwnEntity {
				t.values = self.values
			}
			x := prepareCheck(definition, template, err, t)
			key := schedule.Key{Check: definition.Unit, ProxyNode: t.node}
			if old, ok := c.byKey[key]; ok {
				x.state = old.state
			}
			if byKey[key] == nil { // of two definitions of one check the later one wins
				keys = append(keys, key)
			}
			byKey[key] = x
		}
	}
	jobs := make([]schedule.Job, 0, len(keys))
	for _, key := range keys {
		jobs = append(jobs, c.scheduleJob(byKey[key], key))
	}
	if err := c.scheduler.Set(jobs); err != nil {
		return err
	}
	c.byKey, c.checkOfDefinition = byKey, units
	c.fetchAssets(a.Definitions)
	return nil
}

// suspendDefinitions removes all checks from the schedule. The next call of applyDefinitions schedules the checks
// again.
func (c *checks) suspendDefinitions() { _ = c.scheduler.Set(nil) } // an empty list has no error

// scheduleJob returns a job for the scheduler, with the due times of a check and its function. An invalid schedule
// becomes the problem of x, which no other goroutine has yet.
func (c *checks) scheduleJob(x *check, key schedule.Key) schedule.Job {
	definition := x.definition
	job := schedule.Job{Key: key, Interval: definition.Interval, Cron: definition.Cron, Zone: definition.TimeZone, OnRequest: definition.RoundRobin}
	if job.Cron != "" {
		if _, err := when.ParseCron(job.Cron, job.Zone); err != nil {
			x.problem = err.Error()
			job.Cron, job.Interval = "", fallbackInterval
		}
	} else if job.Interval <= 0 {
		x.problem = "the check has neither interval nor cron"
		job.Interval = fallbackInterval
	}
	if len(definition.Except) > 0 {
		except, err := window.NewSet(definition.Except)
		if err != nil {
			x.problem = err.Error()
		}
		job.Paused = func() bool {
			_, inside := except.Active(c.agent.serverTime())
			return inside
		}
	}
	job.Do = func(ctx context.Context) { c.runCheck(ctx, x) }
	return job
}

// prepareCheck expands the definition of a check with the properties of its target node. err is the error of the
// command template.
func prepareCheck(definition *model.CheckDefinition, template *model.CommandTemplate, err error, t resultTarget) *check {
	x := &check{definition: definition, proxyNode: t.node, state: &checkState{}}
	if err == nil {
		x.command, err = template.Expand(t.values)
	}
	if t.node != 0 {
		if x.command.Env == nil {
			x.command.Env = map[string]string{}
		}
		x.command.Env[proxyNodeVariable] = t.name
	}
	if err == nil && definition.RunAs != "" && strings.TrimSpace(x.command.RunAs) == "" {
		// Empty would mean the agent's own user, perhaps root.
		x.problem = fmt.Sprintf("runAs %s is empty on this node: the check does not run", definition.RunAs)
	}
	if err != nil {
		x.problem = err.Error()
		var missing *model.MissingError
		if errors.As(err, &missing) {
			x.problem += "\n  set it for all, a namespace, a group or this node (muster explain property), or write a default into the check: | default \"…\""
		}
	}
	return x
}

// proxyNodeVariable names the proxy node in the environment of a proxy check's command.
const proxyNodeVariable = "MUSTER_NODE"

// resultTarget is the node that a check is about, either the local node or a proxy node. It is this agent's
// node or a proxy node.
type resultTarget struct {
	node   model.NodeID
	name   string
	values model.PropertyValues
}

// proxyTargets returns, for each check, the proxy nodes (nodes without an agent) that belong to the check. This agent
// runs the check for these nodes.
func proxyTargets(p *wire.ProxyChecks) map[model.DefinitionID][]resultTarget {
	nodes := make(map[model.NodeID]resultTarget, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		nodes[n.Node] = resultTarget{n.Node, n.Name, wire.PropertyLookup(n.Properties)}
	}
	targets := map[model.DefinitionID][]resultTarget{}
	for _, set := range p.Sets {
		list := make([]resultTarget, 0, len(set.Nodes))
		for _, id := range set.Nodes {
			if t, ok := nodes[id]; ok {
				list = append(list, t)
			}
		}
		for _, definition := range set.Definitions {
			targets[definition] = list
		}
	}
	return targets
}

// runRoundRobin runs the round-robin checks that the server gives to the local node. One node of a group at a time
// runs such a check. The server gives a run to another node when no result of it arrives.
func (c *checks) runRoundRobin(t *wire.RoundRobinRuns) {
	for _, r := range t.Runs {
		check, _, assigned := c.findCheck(r.Definition)
		if !assigned || !c.scheduler.RunNow(schedule.Key{Check: check, ProxyNode: r.Node}) {
			c.agent.cfg.Log.Debug("ignored a round-robin run of a check that is not in the assignment", "definition", r.Definition, "proxyNode", r.Node)
		}
	}
}
