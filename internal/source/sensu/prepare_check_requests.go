package sensu

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// preparedCheck is a check converted to a Sensu check request, without the time of issue. It is immutable; without
// properties of a node, all nodes share it.
type preparedCheck struct {
	definition *model.CheckDefinition
	request    sensuwire.CheckRequest
	location   *time.Location    // time zone of the cron expression
	except     window.Set        // times without runs of the check
	tags       map[string]string // of the metrics that the server parses
	problem    string            // reason why a Sensu agent cannot run it, the output of an UNKNOWN result; empty: it can

	encoded [2]atomic.Pointer[[]byte] // the request without its time, by codec; nil: not used yet
}

// encode returns the encoded check request, without the time at which the server sends the request.
func (r *preparedCheck) encode(codec sensuwire.Codec) []byte {
	if encoded := r.encoded[codec].Load(); encoded != nil {
		return *encoded
	}
	encoded := codec.AppendConstantPart(nil, &r.request)
	r.encoded[codec].Store(&encoded)
	return encoded
}

// sessionJobs has the scheduled checks of a session's agent, and the check requests that wait to be sent. The
// session's Mu guards them.
type sessionJobs struct {
	list     []*checkJob // ascending by name and proxy node
	revision uint64      // of the assignment
	due      []*checkJob // jobs whose runs have to be requested now
	resolved []resolvedJob
	runs     []requestedRun // runs that people requested and that are not answered yet
}

// checkJob is one check in a session, with the times of its runs. The server asks the agent to run the check at each
// due time. The session's Mu guards it, except for the timetable's fields.
type checkJob struct {
	x          *session
	prepared   *preparedCheck
	proxy      directory.ProxyNode    // the proxy node that it checks; ID zero: the session's node
	previous   *model.CheckDefinition // the definition before, which judges runs that were requested before since
	since      int64                  // s since 1970: definition is in force from here on
	issued     int64                  // time of the last request, s since 1970
	unanswered bool                   // the last request has no result yet
	resolving  bool                   // the values of its secrets are being looked up
	due        bool                   // the job is in sessionJobs.due

	// The fields below belong to the timetable and its lock.
	at       int64         // due time, by Server.monotonicTime
	slot     time.Duration // offset of the job's runs within their interval; see assignSlots
	cronTime time.Time     // next time of a cron check, by the wall clock
	firstRun bool          // the check has no event on the node yet
}

// findJob finds a scheduled check by its name and proxy entity in a sorted list. An empty entity means the agent
// itself.
func findJob(jobs []*checkJob, name, proxy []byte) *checkJob {
	i, ok := slices.BinarySearchFunc(jobs, name, func(j *checkJob, name []byte) int {
		a := &j.prepared.request
		return cmp.Or(strings.Compare(a.Name, string(name)), strings.Compare(a.Proxy, string(proxy)))
	})
	if !ok {
		return nil
	}
	return jobs[i]
}

// selectJob returns the first scheduled check for which the given function returns true, or nil.
func selectJob(list []*checkJob, matches func(*checkJob) bool) *checkJob {
	if i := slices.IndexFunc(list, matches); i >= 0 {
		return list[i]
	}
	return nil
}

// preparedChecks caches the check requests without node properties, so that all sessions share one copy. All
// sessions can share them.
type preparedChecks struct {
	mu           sync.Mutex
	byDefinition map[model.DefinitionID]*preparedCheck
}

// maxPreparedChecks limits the prepared checks in memory, where checks of deleted definitions go first.
const maxPreparedChecks = 20_000

// planJobs makes the list of checks that the server will ask the agent to run. The reader calls it when the session
// starts, a writer when the assignment has changed.
func (x *session) planJobs() {
	x.planning.Lock()
	defer x.planning.Unlock()
	a := x.srv.cfg.Assignments.AssignmentOf(x.Node.ID)
	if a == nil {
		if _, ok := x.srv.cfg.Intent.LookupNode(x.UID); !ok {
			_ = x.Conn.WriteClose(1001, "the node was deleted")
			_ = x.Conn.Close()
		}
		return
	}
	list := make([]*checkJob, 0, len(a.Definitions))
	x.Mu.Lock()
	before, ended := x.list, x.EndedLocked()
	x.Mu.Unlock()
	if ended {
		return
	}
	now := x.srv.cfg.Now().Unix()
	proxies := proxyTargetsOf(a)
	for _, definition := range a.Definitions {
		c := definition.AsCheck()
		if c == nil {
			continue
		}
		for _, of := range runTargetsOf(c, a, proxies) {
			j := &checkJob{x: x, prepared: x.prepareCheck(c, &of), proxy: of.ProxyNode, since: now}
			if old := findJob(before, []byte(j.prepared.request.Name), []byte(j.prepared.request.Proxy)); old != nil && old.proxy == j.proxy {
				if old.prepared.definition.ID == c.ID && old.prepared.problem == j.prepared.problem && reflect.DeepEqual(&old.prepared.request, &j.prepared.request) {
					list = append(list, old)
					continue
				}
				j.previous, j.issued = old.prepared.definition, old.issued
			}
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *checkJob) int {
		a1, b1 := &a.prepared.request, &b.prepared.request
		return cmp.Or(strings.Compare(a1.Name, b1.Name), strings.Compare(a1.Proxy, b1.Proxy))
	})
	x.Mu.Lock()
	if x.EndedLocked() {
		x.Mu.Unlock()
		return
	}
	x.list, x.revision = list, a.Generation.Revision
	x.Mu.Unlock()
	old := make(map[*checkJob]bool, len(before))
	for _, j := range before {
		old[j] = true
	}
	timed := make([]*checkJob, 0, len(list))
	for _, j := range list {
		if j.prepared.definition.RoundRobin {
			continue // round-robin checks are requested by Give
		}
		if timed = append(timed, j); !old[j] {
			j.firstRun = j.previous == nil && !x.srv.cfg.View.HasEvent(j.checkedNode(), j.prepared.definition.Unit)
		}
	}
	x.srv.setJobs(x, timed)
}

// prepareCheck converts a compiled check to a Sensu check request for one node. It is the session's node or a proxy
// node.
func (x *session) prepareCheck(c *model.CheckDefinition, of *runTarget) *preparedCheck {
	template, err := c.Template()
	verbatim := err == nil && c.Sensu && (of.ID == 0 || c.OwnEntity) // the agent expands tokens over its own entity
	shared := (verbatim || err == nil && len(template.Names()) == 0) && c.Namespace == x.Node.Namespace && of.ID == 0 && len(c.Assets) == 0 && !c.StdinEvent && len(x.redactedKeys()) == 0
	r := &x.srv.prepared
	if shared {
		r.mu.Lock()
		known := r.byDefinition[c.ID]
		r.mu.Unlock()
		if known != nil {
			return known
		}
	}
	made := &preparedCheck{definition: c, request: sensuwire.CheckRequest{
		Name: c.Name, Proxy: of.name, Namespace: x.namespace, Interval: uint32(max(c.Interval/time.Second, 1)), Timeout: uint32((c.Timeout + time.Second - 1) / time.Second),
	}}
	if c.Namespace != x.Node.Namespace { // no name of a check has a colon
		made.request.Name = model.SharedNamespaceName + ":" + c.Name
	}
	var run model.ExpandedCommand
	switch {
	case verbatim:
		run, err = c.UnexpandedCommand(), x.checkRedactedTokens(template)
	case err == nil:
		run, err = template.Expand(propertyValues(of.properties))
	}
	if err == nil && c.Cron != "" {
		made.location, err = when.ParseCron(c.Cron, c.TimeZone)
	}
	if err == nil {
		made.except, err = window.NewSet(c.Except)
	}
	switch {
	case err != nil:
		made.problem = describeRequestError(err)
	case run.Probe != "":
		made.problem = fmt.Sprintf("this node runs sensu-agent, which has no probe %s: exclude the node (targets.except), or install muster-agent", run.Probe)
	case c.RunAs != "":
		made.problem = fmt.Sprintf("this node runs sensu-agent, which cannot run commands as %s: exclude the node (targets.except), or install muster-agent", c.RunAs)
	default:
		if of.ID != 0 {
			if run.Env == nil {
				run.Env = map[string]string{}
			}
			run.Env["MUSTER_NODE"] = of.name
		}
		text := sensuwire.EscapeTemplate
		if verbatim {
			text = func(text string) string { return text }
		}
		made.request.Command = text(shellLine(&run))
		for _, name := range slices.Sorted(maps.Keys(run.Env)) {
			made.request.Env = append(made.request.Env, text(name+"="+run.Env[name]))
		}
		made.request.Hooks = hooksOf(c, &run, text)
		if made.tags = run.Tags; c.Sensu {
			setMetrics(&made.request, c.Metrics, &run)
		}
		made.request.Stdin = x.stdinOf(c)
		made.problem = x.setAssets(&made.request, c)
	}
	if shared {
		r.mu.Lock()
		if r.byDefinition == nil || len(r.byDefinition) >= maxPreparedChecks {
			r.byDefinition = map[model.DefinitionID]*preparedCheck{}
		}
		r.byDefinition[c.ID] = made
		r.mu.Unlock()
	}
	return made
}

// setMetrics adds metric format and thresholds to a check request. The agent then parses and compares the metrics
// itself.
func setMetrics(request *sensuwire.CheckRequest, m *model.Metrics, run *model.ExpandedCommand) {
	if m == nil {
		return
	}
	request.MetricFormat, request.MetricTags = model.SensuMetricFormat(m.Format), run.Tags
	for i := range run.Thresholds {
		t := &run.Thresholds[i]
		missing, _ := model.ParseStatus(t.Missing)
		threshold := sensuwire.Threshold{Metric: t.Metric, Tags: t.Tags, Missing: uint32(missing)}
		for _, of := range [...]struct {
			*model.Bounds
			status model.Status
		}{{t.Warning, model.Warning}, {t.Critical, model.Critical}, {t.Unknown, model.Unknown}} {
			if of.Bounds != nil {
				threshold.Rules = append(threshold.Rules, sensuwire.ThresholdRange{Min: of.MinText(), Max: of.MaxText(), Status: uint32(of.status)})
			}
		}
		request.Thresholds = append(request.Thresholds, threshold)
	}
}

// redactedKeys returns the labels and annotations whose values the agent keeps secret (redacts).
func (x *session) redactedKeys() []string {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	return x.redacted
}

// checkRedactedTokens returns an error if a template token of the check reads a redacted label or annotation.
// The agent redacts the value.
func (x *session) checkRedactedTokens(template *model.CommandTemplate) error {
	for _, key := range x.redactedKeys() {
		if field, name, _ := strings.Cut(key, "."); template.UsesLabel(name) {
			return model.RedactedTokenError(field, name)
		}
	}
	return nil
}

// stdinOf returns the request fields for a command that reads the event from standard input. For other commands
// it returns nil.
func (x *session) stdinOf(c *model.CheckDefinition) *sensuwire.Stdin {
	if !c.StdinEvent {
		return nil
	}
	stdin := &sensuwire.Stdin{TTL: int64(c.TTL / time.Second), Handlers: c.Handlers}
	for _, name := range c.Pipelines {
		if handler, ok := strings.CutPrefix(name, model.SensuPipeline("")); ok {
			stdin.Handlers = append(stdin.Handlers[:len(stdin.Handlers):len(stdin.Handlers)], handler)
		} else {
			stdin.Pipelines = append(stdin.Pipelines, name)
		}
	}
	kept := x.srv.cfg.Checks.FilterContext(0, 0, c.Unit)
	if kept.Check != nil {
		stdin.Labels, stdin.Annotations = kept.Check.Labels, kept.Check.Annotations
	}
	stdin.Subscriptions = kept.Groups
	return stdin
}

// describeRequestError returns why the server cannot build a check's request, and how to correct the cause.
func describeRequestError(err error) string {
	text := err.Error()
	if missing := (*model.MissingError)(nil); errors.As(err, &missing) {
		text += "\n  set it for all, a namespace, a group or this node (muster explain property), or write a default into the check: | default \"…\""
	}
	return text
}

// shellLine returns a shell command line that sensu-agent executes exactly as muster-agent would.
func shellLine(run *model.ExpandedCommand) string {
	line := run.Shell
	if run.Argv != nil {
		words := make([]string, len(run.Argv))
		for i, word := range run.Argv {
			words[i] = quoteShell(word)
		}
		line = strings.Join(words, " ")
	}
	if run.Stdin != "" {
		line = "printf %s " + quoteShell(run.Stdin) + " | {\n" + line + "\n}"
	}
	return line
}

// quoteShell quotes a word for a shell.
func quoteShell(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// propertyValues returns a function that finds a node property by its name in a sorted list.
func propertyValues(list []wire.Property) model.PropertyValues {
	return func(name string) ([]byte, string, bool) {
		i, ok := slices.BinarySearchFunc(list, name, func(p wire.Property, name string) int { return strings.Compare(p.Name, name) })
		if !ok {
			return nil, "", false
		}
		return list[i].Value, list[i].Error, true
	}
}

// checkedNode returns the id of the node under check, which is the agent's own or a proxy node.
func (j *checkJob) checkedNode() model.NodeID { return cmp.Or(j.proxy.ID, j.x.Node.ID) }

// appendRequestOrFail appends the encoded request of a due check to dst, or writes a failing result. It fails
// if the agent cannot run the check. The request has no secrets.
func (j *checkJob) appendRequestOrFail(dst []byte) []byte {
	if problem := j.unsupportedReason(); problem != "" {
		j.failRun(problem)
		return dst
	}
	return j.appendRequest(dst, nil)
}

// appendRequest appends the check request, with the encoded secrets, to dst.
func (j *checkJob) appendRequest(dst, secrets []byte) []byte {
	x := j.x
	now := x.srv.cfg.Now().Unix()
	x.Mu.Lock()
	if j.unanswered {
		x.srv.metrics.overdue.Inc()
	}
	j.issued, j.unanswered = max(now, j.issued+1), true // agents run a check once per second
	issued := j.issued
	x.Mu.Unlock()
	x.srv.metrics.requests.Inc()
	var buf [32]byte
	return wsconn.AppendFrame(dst, []byte(sensuwire.TypeCheckRequest+"\n"), j.prepared.encode(x.codec), secrets, x.codec.AppendIssueTime(buf[:0], issued))
}
