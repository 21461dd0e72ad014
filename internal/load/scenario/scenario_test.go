package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestGolden reads each testdata/NAME.yaml, and compares its errors, or the scenario with defaults, with the golden
// file. A scenario with defaults is read back as the same.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			testenv.NoError(t, err)
			got := readAndFill(t, name+".yaml", data)
			testenv.Golden(t, "testdata/"+name+".golden", got)
			if again := readAndFill(t, name+".yaml", []byte(got)); strings.HasPrefix(got, "scenario: ") && again != got {
				t.Errorf("read back:\n%s", again)
			}
		})
	}
}

// readAndFill returns the errors of a file, or the scenario with defaults.
func readAndFill(t *testing.T, file string, data []byte) string {
	s, err := Parse(file, data)
	if err != nil {
		return err.Error() + "\n"
	}
	s.Defaults()
	return asYAML(t, s)
}

// asYAML encodes a scenario as YAML.
func asYAML(t *testing.T, s *Scenario) string {
	t.Helper()
	data, err := s.YAML()
	testenv.NoError(t, err)
	return string(data)
}

// FuzzParse parses random files, and expects an Invalid error with lines, or a scenario that can be scaled, shortened
// and described.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		s, err := Parse("f.yaml", data)
		if err != nil {
			if model.ClassOf(err) != model.Invalid {
				t.Fatal(err)
			}
			return
		}
		s.Defaults()
		m := Machine{Cores: 2, Memory: 4 << 30, Files: 20_000}
		for _, s := range []*Scenario{s, s.Scaled(0.1), s.Quick(m)} {
			if s.Nodes("") < 1 || s.Duration() <= 0 || s.Describe() == "" {
				t.Fatalf("%+v", s)
			}
			asYAML(t, s)
		}
	})
}

// FuzzQuantities parses random limits and rates, and expects that they are written as read.
func FuzzQuantities(f *testing.F) {
	for _, text := range []string{"60ms", "12us", "30%", "32000", "1%/min", "300/day", "1e300/s", "NaN", "-1/s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, _ := json.Marshal(text)
		var l Limit
		if l.UnmarshalJSON(data) == nil {
			for _, figure := range Figures() {
				if v, err := l.In(figure.Unit); err == nil && !(v > 0) {
					t.Errorf("%q is %v %s", text, v, figure.Unit)
				}
			}
		}
		var r Rate
		if r.UnmarshalJSON(data) == nil && !(r.PerSecond(10) >= 0) {
			t.Errorf("%q is %v per second", text, r.PerSecond(10))
		}
		plain(data)
	})
}

// TestQuantities parses limits and rates, valid and malformed.
func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		unit  string
		want  float64
	}{{"60ms", "ms", 60}, {"0.06s", "ms", 60}, {"12us", "µs", 12}, {"12 µs", "µs", 12}, {"12kB", "kB", 12}, {"12KiB", "B", 12288}, {"30%", "%", 30},
		{"32000", "results/s", 32000}, {"32000/s", "results/s", 32000}, {"2m", "s", 120}, {"30", "s", -1}, {"30%", "ms", -1}, {"0ms", "ms", -1}} {
		got, err := c.limit.In(c.unit)
		if (err != nil) != (c.want < 0) || err == nil && math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s in %s: %v, %v", c.limit, c.unit, got, err)
		}
	}
	for rate, want := range map[Rate]float64{"10/s": 10, "6/min": 0.1, "86400/day": 1, "36/h": 0.01, "1%/s": 2, "": 0} {
		if got := rate.PerSecond(200); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v per second, want %v", rate, got, want)
		}
	}
}

// TestShipped reads each shipped scenario, and expects a description, its file's name, and a quick form for a small
// machine.
func TestShipped(t *testing.T) {
	small := Machine{Cores: 2, Memory: 8 << 30, Files: 20_000}
	var list strings.Builder
	for _, name := range Names() {
		s, err := Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Name != name || s.Answers == "" || s.Seed == 0 {
			t.Errorf("%s: name %q, answers %q, seed %d", name, s.Name, s.Answers, s.Seed)
		}
		if text := asYAML(t, s); readAndFill(t, name, []byte(text)) != text {
			t.Errorf("%s is another when it is read back:\n%s", name, text)
		}
		for _, files := range []int{500, 1024, 4096, 20_000, 65_536} { // the run's own server takes its part
			q := s.Quick(Machine{Cores: 64, Memory: 1 << 40, Files: files})
			if need := Files(q.Nodes(""), true); need > files {
				t.Errorf("%s with %d files: %d connections need %d", name, files, q.Nodes(""), need)
			}
		}
		q := s.Quick(small)
		text := asYAML(t, q)
		if _, err := Parse(name, []byte(text)); err != nil {
			t.Errorf("%s-quick: %v\n%s", name, err, text)
		}
		most := QuickTime + 20*time.Second
		if slices.ContainsFunc(s.Phases, func(p Phase) bool { return p.Of != "" }) {
			most = 5 * time.Minute // if no step breaks: the end of a large machine has to be found
		} else if slices.ContainsFunc(s.Phases, func(p Phase) bool { return p.Grow > 0 }) {
			most = 3 * time.Minute // likewise
		}
		if name == "muster-bad-day" {
			most = 150 * time.Second // each of three machines' silences has to be noticed
		}
		if name == "muster-mixed" {
			most = 115 * time.Second // each of eight phases has answers enough to be compared
		}
		if q.Measured() > most {
			t.Errorf("%s-quick measures for %s", name, q.Measured())
		}
		if q.Rate() > 2*easyRate*1.05 || q.Nodes("") > 2*easyAgents*1.05 {
			t.Errorf("%s-quick: %.0f results/s of %d agents", name, q.Rate(), q.Nodes(""))
		}
		if fewer := q.Nodes("") != s.Nodes(""); (q.Scale != 0) != fewer || strings.HasSuffix(q.FullTitle(), " % of the agents)") != fewer {
			t.Errorf("%s-quick: scale %v, %d of %d agents, %q", name, q.Scale, q.Nodes(""), s.Nodes(""), q.FullTitle())
		}
		if per, whole := q.Rate()/float64(q.Nodes("")), s.Rate()/float64(s.Nodes("")); math.Abs(per-whole) > 0.05*whole {
			t.Errorf("%s-quick: %.2f results/s per agent, not %.2f", name, per, whole)
		}
		fmt.Fprintf(&list, "%s\n%s%s\nquick, on a small machine: %s%s\n", name, s.Describe(), timetable(s), q.Describe(), timetable(q))
	}
	testenv.Golden(t, "testdata/shipped.golden", list.String())
}

// TestWhatAScenarioWaitsFor expects an error of its own class and exit code for a scenario that needs capabilities not
// yet made. They depend on the target: Sensu has some that Muster lacks.
func TestWhatAScenarioWaitsFor(t *testing.T) {
	for _, c := range []struct{ name, target, want string }{
		{"sensu-36000x38x10s-fleet", "muster", "fleet-of-servers"}, {"sensu-36000x38x10s-fleet", "sensu", ""}, {"sensu-round-robin", "muster", ""}, {"sensu-round-robin", "sensu", "proxy-checks, round-robin"},
		{"sensu-stream-handler", "sensu", "stream-handler"}, {"sensu-stream-handler", "muster", ""}, {"glaber-400000-values", "sensu", "values"}, {"rudder-20000x350", "muster", ""},
	} {
		s, err := Load(c.name)
		testenv.NoError(t, err)
		s.Target = c.target
		if err := s.Runs(); strings.Join(s.Missing(), ", ") != c.want || (err == nil) != (c.want == "") || err != nil && (model.ClassOf(err) != model.Unsupported || !strings.Contains(err.Error(), "this version has no "+c.want)) {
			t.Errorf("%s against %s: %v, want %q", c.name, c.target, err, c.want)
		}
	}
}

// TestQuickStepsGrowAsTheWhole expects that steps of quick forms are shorter and grow by the same amount.
func TestQuickStepsGrowAsTheWhole(t *testing.T) {
	s, err := Load("muster-saturation")
	testenv.NoError(t, err)
	whole, quick := s.Phases[1].Rates(), s.Quick(Machine{Cores: 2, Memory: 8 << 30, Files: 20_000}).Phases[1].Rates()
	if !slices.Equal(whole, quick) || s.Measured() > 12*time.Minute {
		t.Errorf("%v, quick %v; %s", whole, quick, s.Measured())
	}
}

// TestQuickFitsTheMachine expects that the scarcest resource of the machine limits the quick form, and unknown
// resources do not.
func TestQuickFitsTheMachine(t *testing.T) {
	s, err := Load("sensu-4000x40x5s")
	testenv.NoError(t, err)
	for want, m := range map[int]Machine{
		1240: {Cores: 2, Memory: 64 << 30, Files: 1 << 20},
		600:  {Cores: 1, Memory: 64 << 30, Files: 1 << 20},
		800:  {Cores: 64, Memory: 64 << 30, Files: 1024},
		3480: {Cores: 64, Memory: 1 << 30, Files: 1 << 20},
		4000: {Cores: 64, Memory: 64 << 30, Files: 1 << 20},
	} {
		if got := s.Quick(m).Nodes(""); got != want {
			t.Errorf("%+v: %d agents, want %d", m, got, want)
		}
	}
	if got := s.Quick(Machine{}).Nodes(""); got != 4000 {
		t.Errorf("of an unknown machine: %d agents", got)
	}
	if m := ThisMachine(); m.Cores < 1 || runtime.GOOS == "linux" && m.Memory < 1<<20 {
		t.Errorf("this machine: %+v", m)
	}
}

// TestMemoryHasTheSpools expects that the estimate has the values and runs that wait for a minute.
func TestMemoryHasTheSpools(t *testing.T) {
	for _, c := range []struct {
		class Class
		want  int64
	}{
		{Class{Values: []Values{{Count: 60, Interval: model.Duration(time.Second)}}}, 60 * 60 * numberBytes},
		{Class{Values: []Values{{Count: 6000, Interval: model.Duration(time.Second)}}}, mostSpool},
		{Class{Policies: []Policy{{Components: 1000, Directives: 10, Interval: model.Duration(time.Minute)}}}, 500 + 10*signedBytes},
	} {
		c.class.Count = 100
		loader, _ := (&Scenario{Agents: []Class{c.class}}).Memory()
		if got := loader/100 - plainAgent - agentLedger; got != c.want {
			t.Errorf("%+v: %d bytes, want %d", c.class, got, c.want)
		}
	}
}

// timetable lists phases, faults and changes of a scenario.
func timetable(s *Scenario) string {
	var b strings.Builder
	for i := range s.Phases {
		p := &s.Phases[i]
		fmt.Fprintf(&b, "- %s for %s, rates %v, faster %v, settle %s\n", p.Name, p.Length(), p.Rates(), p.Faster, p.Settle)
	}
	for i := range s.Faults {
		fmt.Fprintf(&b, "- %s\n", s.Faults[i].String())
	}
	for i := range s.Intent {
		fmt.Fprintf(&b, "- %s\n", s.Intent[i].String())
	}
	return b.String()
}

// TestPicksInWords compares the text of picks.
func TestPicksInWords(t *testing.T) {
	for _, c := range []struct {
		pick Pick
		want string
	}{
		{Pick{}, "all"},
		{Pick{Within: "rack"}, "all within one rack"},
		{Pick{Count: 5}, "5 of all"},
		{Pick{Share: 0.1}, "10 % of all"},
		{Pick{Class: "web"}, "all of web"},
		{Pick{Class: "web", Count: 5, Within: "rack"}, "5 of web within one rack"},
		{Pick{Group: "eu"}, "all of group eu"},
		{Pick{Group: "eu", Share: 0.1}, "10 % of group eu"},
		{Pick{Group: "eu", Count: 5}, "5 of group eu"},
	} {
		if got := c.pick.String(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.pick, got, c.want)
		}
	}
	change := Change{Create: 5, Delete: 1, Kind: "check", Group: "eu"}
	if got := change.What(); got != "create 5 and delete 1 checks of group eu" {
		t.Error(got)
	}
}

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
