package prep

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// definition describes one type of step.
type definition struct {
	name     string // in resources
	zabbix   string // in Zabbix's exports
	min, max int    // number of parameters
	flags    stepFlags
	compile  func(params []string, t item.Type) (stepFunc, error)
	refused  string // reason why the step is not supported
}

// definitions lists all types of steps in the order of Zabbix's codes.
var definitions = []definition{
	{name: "multiplier", zabbix: "MULTIPLIER", min: 1, max: 1, compile: compileMultiplier},
	{name: "snmpWalkValue", zabbix: "SNMP_WALK_VALUE", max: 2, refused: "SNMP is not supported yet"},
	{name: "snmpWalkToJson", zabbix: "SNMP_WALK_TO_JSON", max: 100, refused: "SNMP is not supported yet"},
	{name: "snmpGetValue", zabbix: "SNMP_GET_VALUE", max: 1, refused: "SNMP is not supported yet"},
}

// compileStep compiles the step at a position of a chain.
func compileStep(s model.Step, position int, t item.Type) (step, error) {
	i := slices.IndexFunc(definitions, func(d definition) bool { return d.name == s.Name })
	if i < 0 {
		return step{}, model.Errorf(model.Invalid, "there is no step with this name").WithHint("steps: %s", strings.Join(Names(), ", "))
	}
	d := &definitions[i]
	params := s.Parameters
	switch {
	case d.refused != "":
		return step{}, model.Errorf(model.Unsupported, "%s", d.refused)
	case len(params) < d.min || len(params) > d.max:
		return step{}, model.Errorf(model.Invalid, "%d parameters, expected %d to %d", len(params), d.min, d.max)
	case s.OnFail != nil && d.flags&noHandler != 0:
		return step{}, model.Errorf(model.Invalid, "this step never fails, so onFail has no effect")
	}
	run, err := d.compile(params, t)
	return step{run: run, flags: d.flags, onFail: s.OnFail}, err
}

// Names returns the names of all supported steps.
func Names() []string {
	var names []string
	for i := range definitions {
		if definitions[i].refused == "" {
			names = append(names, definitions[i].name)
		}
	}
	return names
}

// NameOfZabbix returns the name of the step that Zabbix's exports call zabbix.
func NameOfZabbix(zabbix string) (string, bool) {
	i := slices.IndexFunc(definitions, func(d definition) bool { return d.zabbix == zabbix })
	if i < 0 {
		return "", false
	}
	return definitions[i].name, true
}
