package prep

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// TestOutputsAreBounded runs steps that multiply the length of their values, and expects an error at the limit.
func TestOutputsAreBounded(t *testing.T) {
	again := func(step model.Step) (steps []model.Step) {
		for range 5 {
			steps = append(steps, step)
		}
		return steps
	}
	deep := strings.Repeat(`{"k":`, 60) + `"` + strings.Repeat("x", 200<<10) + `"` + strings.Repeat("}", 60)
	for name, c := range map[string]struct {
		value string
		steps []model.Step
	}{
		"replace":            {strings.Repeat("a", 1000), []model.Step{sampleStep("replace", "a", strings.Repeat("b", 60<<10))}},
		"replace again":      {"a", again(sampleStep("replace", "a", strings.Repeat("a", 100)))},
		"regex":              {"a", again(sampleStep("regex", "^.*$", strings.Repeat(`\0`, 100)))},
		"csvToJson":          {strings.Repeat("h", 100<<10) + strings.Repeat("\n", 10_000), []model.Step{sampleStep("csvToJson", "", "", "1")}},
		"prometheusToJson":   {"# TYPE x gauge\n# HELP x " + strings.Repeat("h", 100<<10) + "\n" + strings.Repeat("x 1\n", 10_000), []model.Step{sampleStep("prometheusToJson")}},
		"snmpWalkToJson":     {walkOf(2000), []model.Step{sampleStep("snmpWalkToJson", strings.Repeat("n", 60<<10), ".1.3.6", "0")}},
		"jsonPath":           {deep, []model.Step{sampleStep("jsonPath", "$..*..*..*")}},
		"xmlPath":            {strings.Repeat("<a>", 200) + strings.Repeat("x", 200<<10) + strings.Repeat("</a>", 200), []model.Step{sampleStep("xmlPath", "//*")}},
		"checkRegexError":    {strings.Repeat("a", 1<<20), []model.Step{sampleStep("checkRegexError", "^.*$", strings.Repeat(`\0`, 100))}},
		"replace by nothing": {strings.Repeat("a", maxOutput), []model.Step{sampleStep("replace", "a", "bc")}},
	} {
		chain := compileChain(t, item.Text, c.steps...)
		if got := outcome(chain.Run(nil, textSample(0, c.value))); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "more than 8MiB") {
			t.Errorf("%s: %.100s", name, got)
		}
	}
	long := strings.Repeat("a", maxOutput+1)
	if got := outcome(compileChain(t, item.Text, sampleStep("replace", "a", "b")).Run(nil, textSample(0, long))); len(got) != len(long) {
		t.Errorf("a long value that does not grow: %.100s", got)
	}
}

// walkOf returns the output of an SNMP walk with a number of values.
func walkOf(values int) string {
	var b strings.Builder
	for i := range values {
		b.WriteString(".1.3.6." + textOf(item.FromUnsigned(uint64(i))) + " = INTEGER: 1\n")
	}
	return b.String()
}

// TestWorkIsBounded runs steps that take hours for a value without limits, and expects errors.
func TestWorkIsBounded(t *testing.T) {
	list := "[" + strings.Repeat("0,", 30_000) + `{"big":[` + strings.Repeat("0,", 30_000) + "0]}]"
	chains := strings.Repeat(`{"k":`, 60) + `{"z":[` + strings.Repeat("0,", 60_000) + "0]}" + strings.Repeat("}", 60)
	for name, c := range map[string]struct {
		value, want string
		step        model.Step
	}{
		"long text":       {strings.Repeat("a", maxPatternWork/5000), "too long for a regular expression", sampleStep("matches", strings.Repeat("[ab]{900}", 8)+"$x")},
		"long text regex": {strings.Repeat("a", maxPatternWork/5000), "too long for a regular expression", sampleStep("regex", strings.Repeat("[ab]{900}", 8)+"x", `\0`)},
		"filter":          {list, "visit more than", sampleStep("jsonPath", "$[?($[30000].big[29999] == 1)]")},
		"descendants":     {chains, "visit more than", sampleStep("jsonPath", "$..k..k..k..q")},
		"XPath":           {"<r>" + strings.Repeat("<a/>", 20_000) + "</r>", "visits more than", sampleStep("xmlPath", "//*[count(//*[count(//*) > 0]) > 0]")},
		"XPath text":      {"<r>" + strings.Repeat("<a/>", 20_000) + "</r>", "visits more than", sampleStep("xmlPath", "//a[/r = 'x']")},
		"XPath cascade":   {"<r>" + strings.Repeat("<a><b/></a>", 6000) + "</r>", "visits more than", sampleStep("xmlPath", "//*//*//*[last() > count(//*//*)]")},
		"XPath last":      {"<r>" + strings.Repeat("<a/>", 20_000) + "</r>", "visits more than", sampleStep("xmlPath", "//a[position() = last()]")},
		"XPath first":     {"<r>" + strings.Repeat("<a/>", 20_000) + "</r>", "visits more than", sampleStep("xmlPath", "//a[preceding-sibling::a[. = 'x']]")},
	} {
		chain := compileChain(t, item.Text, c.step)
		if got := outcome(chain.Run(nil, textSample(0, c.value))); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %.100s", name, got)
		}
	}
	for _, pattern := range []string{strings.Repeat("(.{1000})", 11), strings.Repeat(`[^a]{500}`, 30)} {
		if _, err := Compile([]model.Step{sampleStep("matches", pattern)}, item.Text, nil); model.ClassOf(err) != model.TooLarge {
			t.Errorf("%.30s: %v", pattern, err)
		}
	}
}
