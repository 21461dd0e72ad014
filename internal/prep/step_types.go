package prep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// compileFunc is a function that compiles the parameters of a preprocessing step
type compileFunc func(params []string, t item.Type) (stepFunc, error)

// stepType describes one type of preprocessing step, such as multiplier. It has names, parameters and a compile
// function.
type stepType struct {
	name     string // in resources
	zabbix   string // in Zabbix's exports
	min, max int    // number of parameters
	flags    stepFlags
	compile  compileFunc
}

// stepTypes returns the descriptions of all types of steps, in the order of Zabbix's codes. Steps with noHandler take
// no onFail, as in Zabbix. scripts compiles the scripts of the step javascript.
func stepTypes(scripts ScriptCompiler) []stepType {
	return []stepType{
		{"multiplier", "MULTIPLIER", 1, 1, 0, compileMultiplier},
		{"rtrim", "RTRIM", 1, 1, noHandler, compileTrim(strings.TrimRight)},
		{"ltrim", "LTRIM", 1, 1, noHandler, compileTrim(strings.TrimLeft)},
		{"trim", "TRIM", 1, 1, noHandler, compileTrim(strings.Trim)},
		{"regex", "REGEX", 2, 2, 0, compileRegex},
		{"boolToDecimal", "BOOL_TO_DECIMAL", 0, 0, 0, compileBoolToDecimal},
		{"octalToDecimal", "OCTAL_TO_DECIMAL", 0, 0, 0, compileBaseConversion(8, "octal")},
		{"hexToDecimal", "HEX_TO_DECIMAL", 0, 0, 0, compileBaseConversion(16, "hexadecimal")},
		{"simpleChange", "SIMPLE_CHANGE", 0, 0, remembers, compileSimpleChange},
		{"changePerSecond", "CHANGE_PER_SECOND", 0, 0, remembers, compileChangePerSecond},
		{"xmlPath", "XMLPATH", 1, 1, 0, compileXMLPath},
		{"jsonPath", "JSONPATH", 1, 1, 0, compileJSONPath},
		{"inRange", "IN_RANGE", 1, 2, 0, compileInRange},
		{"matches", "MATCHES_REGEX", 1, 1, 0, compileMatches(true)},
		{"notMatches", "NOT_MATCHES_REGEX", 1, 1, 0, compileMatches(false)},
		{"checkJsonError", "CHECK_JSON_ERROR", 1, 1, 0, compileCheckJSONError},
		{"checkXmlError", "CHECK_XML_ERROR", 1, 1, 0, compileCheckXMLError},
		{"checkRegexError", "CHECK_REGEX_ERROR", 1, 2, 0, compileCheckRegexError},
		{"discardUnchanged", "DISCARD_UNCHANGED", 0, 0, remembers | noHandler, compileDiscardUnchanged},
		{"discardUnchangedHeartbeat", "DISCARD_UNCHANGED_HEARTBEAT", 1, 1, remembers | noHandler, compileDiscardUnchangedHeartbeat},
		{"javascript", "JAVASCRIPT", 1, 1, 0, scripts.compileStep},
		{"prometheusPattern", "PROMETHEUS_PATTERN", 1, 3, 0, compilePrometheusPattern},
		{"prometheusToJson", "PROMETHEUS_TO_JSON", 0, 1, 0, compilePrometheusToJSON},
		{"csvToJson", "CSV_TO_JSON", 0, 3, 0, compileCSVToJSON},
		{"replace", "STR_REPLACE", 1, 2, noHandler, compileReplace},
		{"checkNotSupported", "CHECK_NOT_SUPPORTED", 0, 2, onlyErrors, compileCheckNotSupported},
		{"xmlToJson", "XML_TO_JSON", 0, 0, 0, compileXMLToJSON},
		{"snmpWalkValue", "SNMP_WALK_VALUE", 1, 2, 0, compileSNMPWalkValue},
		{"snmpWalkToJson", "SNMP_WALK_TO_JSON", 3, maxParams, 0, compileSNMPWalkToJSON},
		{"snmpGetValue", "SNMP_GET_VALUE", 1, 1, 0, compileSNMPGetValue},
	}
}

// maxParams bounds the parameters of a step.
const maxParams = 100

// compileStep compiles one preprocessing step of an item
func compileStep(s model.Step, t item.Type, scripts ScriptCompiler) (step, error) {
	d, ok := findStepType(scripts, func(d *stepType) bool { return d.name == s.Name })
	params := s.Parameters
	if d.max == 0 {
		params = slices.DeleteFunc(slices.Clone(params), func(p string) bool { return p == "" }) // exports have one empty parameter
	}
	switch {
	case !ok:
		return step{}, model.Errorf(model.Invalid, "unknown preprocessing step").WithHint("known steps: %s", strings.Join(Names(), ", "))
	case len(params) < d.min || len(params) > d.max:
		return step{}, model.Errorf(model.Invalid, "the step has %d parameters, expected %s", len(params), countParams(d.min, d.max))
	case s.OnFail != nil && d.flags&noHandler != 0:
		return step{}, model.Errorf(model.Invalid, "this step never fails, so onFail has no effect").WithHint("remove onFail")
	case s.OnFail == nil && d.flags&onlyErrors != 0:
		return step{}, model.Errorf(model.Invalid, "the step has no onFail, which is required").WithHint("write onFail: {} to discard the value, or {value: TEXT} or {error: TEXT}")
	}
	run, err := d.compile(params, t)
	return step{run: run, flags: d.flags, onFail: s.OnFail}, err
}

// countParams formats how many parameters a step takes, for messages
func countParams(low, high int) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// findStepType returns the first type of preprocessing step that the function match accepts.
func findStepType(scripts ScriptCompiler, match func(*stepType) bool) (stepType, bool) {
	for _, d := range stepTypes(scripts) {
		if match(&d) {
			return d, true
		}
	}
	return stepType{}, false
}

// Names returns the names of all preprocessing steps, in the order of Zabbix's codes.
func Names() []string {
	var names []string
	for _, d := range stepTypes(nil) {
		names = append(names, d.name)
	}
	return names
}

// NameOfZabbix returns Muster's name of a preprocessing step in Zabbix's exports
func NameOfZabbix(zabbix string) (string, bool) {
	d, ok := findStepType(nil, func(d *stepType) bool { return d.zabbix == zabbix })
	return d.name, ok
}
