package rudder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// statuses has the statuses of reports by their types. CFEngine's agents report audit_error hardly ever: a check that failed is
// audit_noncompliant.
var statuses = map[string]policy.Status{
	"result_success": policy.Success, "result_repaired": policy.Repaired, "result_error": policy.Error, "result_na": policy.NotApplicable,
	"audit_compliant": policy.Compliant, "audit_noncompliant": policy.NonCompliant, "audit_error": policy.CouldNotCheck, "audit_na": policy.NotApplicable,
}

// abortComponent is the component by which an agent reports that it ended its run early.
const abortComponent = "abort run"

// maxReportTexts bounds the messages of one report, in bytes.
const maxReportTexts = 64 << 10

// heldLong is an age that is long enough for any grace period of a directive. A directive of Rudder counts as that
// old. The server does not know the age, so no grace applies.
const heldLong = 1 << 62

// evaluateRun compares a run of Rudder's agent with a directive, and returns the compliance report. reports has
// the reports of the directive. Components without a report are missing; reports of other components are
// exceptions behind its last component. Of an agent that reports changes only, last is the run before: in a
// whole run, components without a report are as declared, in the mode of the reports or of the last run.
func evaluateRun(d *model.DirectiveDefinition, run *agentRun, reports []componentReport, last *compliance.Outcome) wire.Report {
	j := newRunEvaluation(d)
	out := wire.Report{Components: uint32(len(d.Components)), HeldMs: heldLong}
	if !run.ended {
		out.Ended = "the run has no end: the agent was stopped or killed before it"
	}
	slices.SortStableFunc(reports, func(a, b componentReport) int { return cmp.Compare(len(b.value), len(a.value)) })
	audited := false
	for i := range reports {
		r := &reports[i]
		status, known := statuses[r.kind]
		if r.component == abortComponent {
			out.Ended = "the agent ended the run: " + model.Truncate(oneLine(r.message), model.MaxText/2)
			continue
		}
		out.Enforced, audited = out.Enforced || strings.HasPrefix(r.kind, "result_"), audited || strings.HasPrefix(r.kind, "audit_")
		at, ok := j.findComponent(r)
		if !ok || !known {
			j.unexpected = append(j.unexpected, r)
			continue
		}
		j.add(at, r, status)
	}
	if last != nil && out.Ended == "" {
		out.Enforced = out.Enforced || !audited && last.Enforced
		j.addUnchanged(out.Enforced)
	}
	out.Codes, out.Exceptions = j.codes, j.exceptions()
	return out
}

// runEvaluation determines the statuses of one directive's components (checked parts) from the reports of one
// agent run.
type runEvaluation struct {
	expected   []model.RudderMethod
	byID       map[string][]int
	byName     map[string][]int // components without an id
	codes      policy.Codes
	worst      []*componentReport // by position: the report that decided; nil: none arrived
	unexpected []*componentReport
}

// newRunEvaluation begins the evaluation of a directive, in which each component counts as missing until its
// first report.
func newRunEvaluation(d *model.DirectiveDefinition) *runEvaluation {
	n := len(d.Components)
	j := &runEvaluation{expected: make([]model.RudderMethod, n), byID: map[string][]int{}, byName: map[string][]int{}, codes: policy.NewCodes(n), worst: make([]*componentReport, n)}
	for i := range d.Components {
		m := &j.expected[i]
		if err := json.Unmarshal(d.Components[i].Arguments, m); err != nil {
			panic("BUG: " + err.Error()) // the planner encoded them
		}
		if m.ID != "" {
			j.byID[m.ID] = append(j.byID[m.ID], i)
			continue
		}
		m.Component, m.Value = cmp.Or(m.Component, d.Components[i].Name), cmp.Or(m.Value, "None")
		j.byName[m.Component] = append(j.byName[m.Component], i)
	}
	for _, list := range j.byName { // fixed values first, then those with the most fixed text
		slices.SortStableFunc(list, func(a, b int) int {
			return cmp.Compare(variability(j.expected[a].Value), variability(j.expected[b].Value))
		})
	}
	return j
}

// variable matches a variable in an expected value; the agent expands it.
var variable = regexp.MustCompile(`\$[{(][^})]*[})]`)

// variability rates how little fixed text an expected value has, and is zero for a value without variables. It
// is zero for a value without variables, and more the less fixed text the value has.
func variability(value string) int {
	if !variable.MatchString(value) {
		return 0
	}
	return 1<<20 - len(variable.ReplaceAllString(value, ""))
}

// matchesExpected reports whether a reported value matches an expected value, whose variables stand for any
// text.
func matchesExpected(expected, value string) bool {
	if expected == value {
		return true
	}
	if variability(expected) == 0 {
		return false
	}
	rest, first := value, true
	parts := variable.Split(expected, -1)
	for i, part := range parts {
		at := strings.Index(rest, part)
		if i == len(parts)-1 {
			return strings.HasSuffix(rest, part)
		}
		if at < 0 || first && at > 0 {
			return false
		}
		rest, first = rest[at+len(part):], false
	}
	return false
}

// findComponent returns the index of the directive's component that a report of the agent is about. ok is false
// for an unexpected report. A second report of a component with a fixed value and without an id is unexpected.
func (j *runEvaluation) findComponent(r *componentReport) (at int, ok bool) {
	if list := j.byID[r.id]; len(list) > 0 {
		for _, i := range list { // elements of a loop share the id
			if j.worst[i] == nil || j.worst[i].value == r.value {
				return i, true
			}
		}
		return list[0], true
	}
	for _, i := range j.byName[r.component] {
		if value := j.expected[i].Value; matchesExpected(value, r.value) && (j.worst[i] == nil || variability(value) > 0) {
			return i, true
		}
	}
	return 0, false
}

// add gives a component the status of an agent's report, unless an earlier report had a worse status. If
// several reports are about one component, the worst status counts.
func (j *runEvaluation) add(at int, r *componentReport, status policy.Status) {
	if j.worst[at] != nil && policy.Worst(status, j.codes.At(at)) == j.codes.At(at) {
		return
	}
	j.codes.Set(at, status)
	j.worst[at] = r
}

// addUnchanged sets components without a report to success or compliant, for agents that report only changes.
func (j *runEvaluation) addUnchanged(enforced bool) {
	status := policy.Compliant
	if enforced {
		status = policy.Success
	}
	for i, r := range j.worst {
		if r == nil {
			j.codes.Set(i, status)
		}
	}
}

// exceptions returns the messages about components with a status other than compliant. The unexpected come last.
func (j *runEvaluation) exceptions() (list []wire.ReportException) {
	size := 0
	add := func(at int, text string) {
		if text = strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD"); text == "" || len(list) == wire.MaxReportExceptions || size > maxReportTexts {
			return
		}
		text = model.Truncate(text, wire.MaxExceptionText-len("…"))
		size += len(text)
		list = append(list, wire.ReportException{Position: uint32(at), Message: text})
	}
	room := min(len(j.unexpected), wire.MaxReportExceptions/2)
	for i, r := range j.worst {
		if status := j.codes.At(i); r != nil && (!status.Fulfilled() || status == policy.Repaired) && len(list)+room < wire.MaxReportExceptions {
			add(i, r.message)
		}
	}
	size = 0 // a report always names unexpected components
	for i, r := range j.unexpected[:room] {
		if at := len(j.expected) + i; at < wire.MaxComponents {
			add(at, fmt.Sprintf("%s %s (%s): %s", r.component, r.value, strings.ReplaceAll(r.kind, "_", " "), oneLine(r.message)))
		}
	}
	return list
}

// oneLine returns a text with single spaces in place of line ends and other space.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
