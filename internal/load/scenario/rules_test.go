package scenario

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestRules expects that each rule fits the type of its field, and that every kind of phase exists.
func TestRules(t *testing.T) {
	rules := 0
	for _, s := range []any{Scenario{}, Server{}, Stream{}, Class{}, Check{}, Output{}, Values{}, Policy{}, Churn{}, Phase{}, Fault{}, Pick{}, FailCheck{}, Change{}, Operators{}, GroupCheck{}, Proxies{}, Recorded{}} {
		for f := range reflect.TypeOf(s).Fields() {
			for _, kind := range strings.Fields(f.Tag.Get("of")) {
				if !slices.Contains([]string{"ramp", "steady", "step", "fault", "drain"}, kind) {
					t.Errorf("%T.%s is of phases %q", s, f.Name, kind)
				}
			}
			r, ok := ruleOf(f)
			if !ok {
				continue
			}
			rules++
			if !slices.Contains([]string{"", "required", "nonzero"}, r.option) && !strings.HasPrefix(r.option, "shares ") {
				t.Errorf("%T.%s: option %q", s, f.Name, r.option)
			}
			wrong := reflect.New(f.Type).Elem()
			switch {
			case wrong.CanInt():
				wrong.SetInt(-1)
			case wrong.CanFloat():
				wrong.SetFloat(-1)
			case f.Type.Kind() == reflect.Slice:
				wrong.Set(reflect.ValueOf([]string{"N o"}))
			case f.Type.Kind() == reflect.Map:
				wrong.Set(reflect.ValueOf(map[string]float64{"N o": -1}))
			default:
				wrong.SetString("N\x00 %")
			}
			for _, value := range []reflect.Value{wrong, reflect.Zero(f.Type)} {
				v := &checker{Scenario: &Scenario{}, written: func(string) bool { return true }}
				v.field(f.Name, value, r)
				if refused := len(v.flaws) > 0; refused != (r.rule != "any" && !value.IsZero() || r.option == "required" && value.IsZero() || r.option == "nonzero" && value.IsZero()) {
					t.Errorf("%T.%s = %v: flaws %v", s, f.Name, value, v.flaws)
				}
			}
		}
	}
	if rules < 60 {
		t.Errorf("%d rules", rules)
	}
}
