package rudder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// expectedDirective returns a compiled directive for Rudder's agents, with the expected components given in JSON.
func expectedDirective(components ...string) *model.DirectiveDefinition {
	d := &model.DirectiveDefinition{Rudder: "d1"}
	for i, arguments := range components {
		d.Components = append(d.Components, model.Component{Name: fmt.Sprint("c", i), Method: "rudder", Arguments: []byte(arguments)})
	}
	return d
}

// TestRunIsEvaluated compares runs with the expected components of a directive, and expects the right statuses.
// Components are found by id or by name and value. Some have variables or repetitions, some reports are missing or
// unexpected.
func TestRunIsEvaluated(t *testing.T) {
	d := expectedDirective(`{"id":"i0"}`, `{"id":"i1"}`, `{"component":"File"}`, `{"component":"File","value":"/etc/${x}.conf"}`, `{"component":"File","value":"/etc/b.conf"}`, `{}`)
	report := func(kind, id, component, value, message string) componentReport {
		return componentReport{kind: kind, id: id, component: component, value: value, message: message}
	}
	for _, c := range []struct {
		name     string
		reports  []componentReport
		ended    bool
		want     string
		messages string

		last *compliance.Outcome // of an agent that reports changes only
	}{
		{"all", []componentReport{
			report("result_success", "i0", "A", "x", ""), report("result_repaired", "i1", "B", "y", "was repaired"), report("audit_compliant", "0", "File", "None", ""),
			report("result_na", "0", "File", "/etc/a.conf", ""), report("audit_noncompliant", "0", "File", "/etc/b.conf", "differs"), report("result_success", "0", "c5", "None", ""),
		}, true, "success, repaired, compliant, not applicable, non-compliant, success", "1 was repaired; 4 differs", nil},
		{"a killed agent", []componentReport{report("result_success", "i0", "A", "x", "")}, false,
			"success, missing, missing, missing, missing, missing; the run has no end: the agent was stopped or killed before it", "", nil},
		{"the worst of an id counts", []componentReport{report("result_success", "i0", "A", "x", ""), report("result_error", "i0", "A", "x", "failed"), report("result_repaired", "i0", "A", "x", "")}, true,
			"error, missing, missing, missing, missing, missing", "0 failed", nil},
		{"a variable takes several", []componentReport{report("result_success", "0", "File", "/etc/a.conf", ""), report("result_error", "0", "File", "/etc/c.conf", "failed")}, true,
			"missing, missing, missing, error, missing, missing", "3 failed", nil},
		{"a fixed value takes one", []componentReport{report("result_success", "0", "c5", "None", ""), report("result_success", "0", "c5", "None", "again")}, true,
			"missing, missing, missing, missing, missing, success", "6 c5 None (result success): again", nil},
		{"unexpected", []componentReport{report("result_success", "i9", "Other", "z", "a\nb"), report("odd", "i0", "A", "x", "")}, true,
			"missing, missing, missing, missing, missing, missing", "6 Other z (result success): a b; 7 A x (odd):", nil},
		{"aborted", []componentReport{report("result_error", "0", "abort run", "None", "policies changed")}, true,
			"missing, missing, missing, missing, missing, missing; the agent ended the run: policies changed", "", nil},
		{"changes only, nothing changed", nil, true, "compliant, compliant, compliant, compliant, compliant, compliant", "", &compliance.Outcome{}},
		{"changes only, nothing changed, enforced before", nil, true, "success, success, success, success, success, success", "", &compliance.Outcome{Enforced: true}},
		{"changes only, one changed", []componentReport{report("result_repaired", "i0", "A", "x", "was repaired")}, true, "repaired, success, success, success, success, success", "0 was repaired", &compliance.Outcome{}},
		{"changes only, audited now", []componentReport{report("audit_noncompliant", "i0", "A", "x", "differs")}, true, "non-compliant, compliant, compliant, compliant, compliant, compliant", "0 differs", &compliance.Outcome{Enforced: true}},
		{"changes only, a killed agent", []componentReport{report("result_error", "i0", "A", "x", "failed")}, false,
			"error, missing, missing, missing, missing, missing; the run has no end: the agent was stopped or killed before it", "0 failed", &compliance.Outcome{}},
	} {
		r := evaluateRun(d, &agentRun{ended: c.ended}, c.reports, c.last)
		var statuses, messages []string
		for i := range d.Components {
			statuses = append(statuses, policy.Codes(r.Codes).At(i).String())
		}
		for _, e := range r.Exceptions {
			messages = append(messages, strings.TrimSpace(fmt.Sprint(e.Position, " ", e.Message)))
		}
		got := strings.Join(statuses, ", ")
		if r.Ended != "" {
			got += "; " + r.Ended
		}
		if got != c.want || strings.Join(messages, "; ") != c.messages || policy.Codes(r.Codes).Check(len(d.Components)) != nil {
			t.Errorf("%s: %s, messages %q", c.name, got, strings.Join(messages, "; "))
		}
		var again wire.Report
		if err := again.Decode(wire.AppendReport(nil, &r)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestExpectedVariablesMatchAnyText compares reported values with expected values, and expects variables to
// match any text.
func TestExpectedVariablesMatchAnyText(t *testing.T) {
	for _, c := range []struct {
		expected, value string
		want            bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"${x}", "", true}, {"a${x}", "ab", true}, {"a${x}", "ba", false}, {"${x}b", "ab", true}, {"${x}b", "abc", false},
		{"a${x}c$(y)e", "abcde", true}, {"a${x}c${y}e", "abde", false}, {"${a.b[c]}/${d}", "x/y", true}, {"a${x}a", "a", false},
	} {
		if got := matchesExpected(c.expected, c.value); got != c.want {
			t.Errorf("%q fits %q: %v", c.value, c.expected, got)
		}
	}
}

// TestManyReportsStayWithinTheProtocol evaluates a run with very many messages, and expects a report within the
// protocol's limits.
func TestManyReportsStayWithinTheProtocol(t *testing.T) {
	var components []string
	var reports []componentReport
	for i := range 3000 {
		components = append(components, fmt.Sprintf(`{"id":"i%d"}`, i))
		reports = append(reports, componentReport{kind: "result_error", id: fmt.Sprint("i", i), message: strings.Repeat("é", 2000)}, componentReport{kind: "result_error", id: "none", component: "U", message: "m"})
	}
	r := evaluateRun(expectedDirective(components...), &agentRun{ended: true}, reports, nil)
	var again wire.Report
	if err := again.Decode(wire.AppendReport(nil, &r)); err != nil {
		t.Fatal(err)
	}
	if n := len(wire.UnexpectedComponents(again.Exceptions, 3000)); n == 0 || policy.Codes(again.Codes).Unfulfilled(3000) != 3000 {
		t.Errorf("%d unexpected", n)
	}
}

// FuzzEvaluateRun compares random run reports with random expected components, and expects a valid result.
func FuzzEvaluateRun(f *testing.F) {
	f.Add("i0", "File", "/etc/${x}", "result_success", "i0", "File", "/etc/a", "text")
	f.Fuzz(func(t *testing.T, id, component, value, kind, reportID, reported, reportedValue, message string) {
		arguments, err := json.Marshal(model.RudderMethod{ID: id, Component: component, Value: value})
		if err != nil {
			return
		}
		d := expectedDirective(string(arguments), `{"id":"other"}`)
		r := evaluateRun(d, &agentRun{}, []componentReport{{kind: kind, id: reportID, component: reported, value: reportedValue, message: message}, {kind: kind, component: component, value: value}}, map[bool]*compliance.Outcome{true: {}}[message == ""])
		var again wire.Report
		if err := again.Decode(wire.AppendReport(nil, &r)); err != nil || policy.Codes(again.Codes).Check(2) != nil {
			t.Errorf("%v: %+v", err, r)
		}
	})
}
