package prep

import (
	"errors"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// maxSteps bounds the preprocessing steps of one item.
const maxSteps = 64

// Chain has the compiled preprocessing steps of an item, in their order. It is immutable.
type Chain struct {
	steps    []step
	typ      item.Type
	checks   int // number of checkNotSupported steps, which stand first
	memories int // number of steps that remember a value
}

// step is one compiled preprocessing step of an item.
type step struct {
	run    stepFunc
	memory int // its position in State, if remembers
	flags  stepFlags
	onFail *model.OnFail
}

// stepFunc is a function that computes the output of a preprocessing step. Output None without error discards the
// value. m is the memory of a step that remembers, p the parsed forms of the input, if dependents share them.
type stepFunc func(v item.Value, at int64, m *rememberedValue, p *ParsedValue) (item.Value, error)

// stepFlags is a bit set of a preprocessing step's properties, such as remembering the last value. One is that the
// step remembers the last value.
type stepFlags uint8

const (
	remembers  stepFlags = 1 << iota // the step has a memory in State
	noHandler                        // onFail is not allowed
	onlyErrors                       // the step runs on errors of the collection, and only first
)

// Compile compiles the preprocessing steps of an item. scripts compiles those of the step javascript; nil: the program
// has no interpreter, and the step is an error.
func Compile(steps []model.Step, t item.Type, scripts ScriptCompiler) (*Chain, error) {
	if len(steps) > maxSteps {
		return nil, model.Errorf(model.TooLarge, "%d preprocessing steps, but the limit is %d", len(steps), maxSteps)
	}
	c := &Chain{typ: t, steps: make([]step, len(steps))}
	for i, s := range steps {
		one, err := compileStep(s, t, scripts)
		if err != nil {
			return nil, model.Errorf(model.ClassOf(err), "preprocessing step %d, %s: %w", i+1, s.Name, err)
		}
		if one.flags&remembers != 0 {
			one.memory = c.memories
			c.memories++
		}
		if one.flags&onlyErrors != 0 && i != c.checks {
			return nil, model.Errorf(model.Invalid, "preprocessing step %d, %s: this step must be before all other steps", i+1, s.Name)
		}
		if one.flags&onlyErrors != 0 {
			c.checks++
		}
		c.steps[i] = one
	}
	return c, nil
}

// HasState reports whether any step needs a value from the last run, such as a change per second. Run of other
// chains takes nil.
func (c *Chain) HasState() bool { return c.memories > 0 }

// Run applies all preprocessing steps to one value of an item. Kind None without error says that a step discarded the
// value. An error makes the item unsupported; its text has the form of Zabbix. A text may share memory with the input.
func (c *Chain) Run(s *State, in item.Sample) (item.Value, error) {
	return c.run(s, in.Value, in.At, nil, nil)
}

// RunDependent preprocesses the value of a master item for one of the items that depend on the master. All dependents
// of the master get the same Parsed, so that the value is parsed once.
func (c *Chain) RunDependent(s *State, master *ParsedValue) (item.Value, error) {
	return c.run(s, master.sample.Value, master.sample.At, master, nil)
}

// StepResult is the output or error of one preprocessing step. People see it when they try out the steps of an item.
type StepResult struct {
	Value    item.Value // the value with which the next step goes on; None: discarded
	Err      error      // the step failed
	OnFail   bool       // onFail replaced the outcome of a failed step
	Duration time.Duration
}

// RunDependentWithResults preprocesses a value like RunDependent, and also returns the output or error of each step
func (c *Chain) RunDependentWithResults(s *State, in *ParsedValue) (item.Value, []StepResult, error) {
	results := make([]StepResult, 0, len(c.steps))
	v, err := c.run(s, in.sample.Value, in.sample.At, in, &results)
	return v, results, err
}

// RunWithResults preprocesses a value like Run, and appends the outcome of each step to results. If p is not nil, it
// works like RunDependent.
func (c *Chain) RunWithResults(s *State, in item.Sample, p *ParsedValue, results *[]StepResult) (item.Value, error) {
	return c.run(s, in.Value, in.At, p, results)
}

// RunFailed handles the error of a failed measurement by the item's checkNotSupported steps. A step may replace the
// error, discard it, or set a value for the next steps. Otherwise the item becomes unsupported with that reason.
func (c *Chain) RunFailed(s *State, at int64, reason string) (item.Value, error) {
	for i := range c.checks {
		one := &c.steps[i]
		if _, err := one.run(item.FromText(reason), at, nil, nil); err == nil {
			continue
		}
		v, err := applyOnFail(one.onFail)
		if err != nil {
			s.reset()
			return v, &Failure{Step: i + 1, Reason: err, text: err.Error()}
		}
		if v.Kind() == item.None {
			return v, nil
		}
		return c.run(s, v, at, nil, nil)
	}
	s.reset()
	return item.Value{}, &Failure{Reason: errors.New(reason), text: reason}
}

// run applies the preprocessing steps in order, and converts the output to the item's type
func (c *Chain) run(s *State, v item.Value, at int64, p *ParsedValue, traced *[]StepResult) (item.Value, error) {
	input := v
	var few [8]item.Value
	outputs := few[:0]
	for i := range c.steps {
		one := &c.steps[i]
		if i < c.checks {
			outputs = append(outputs, v) // the value is no error
			if traced != nil {
				*traced = append(*traced, StepResult{Value: v})
			}
			continue
		}
		var m *rememberedValue
		if one.flags&remembers != 0 {
			m = s.memoryOf(one.memory, c.memories)
		}
		var began time.Time
		if traced != nil {
			began = time.Now()
		}
		out, err := one.run(v, at, m, p)
		p = nil // it has the parsed forms of the first step's input
		failed := err
		if err != nil && one.onFail != nil {
			out, err = applyOnFail(one.onFail)
		}
		if traced != nil {
			*traced = append(*traced, StepResult{Value: out, Err: failed, OnFail: failed != nil && one.onFail != nil, Duration: time.Since(began)})
		}
		if err != nil {
			s.reset()
			return item.Value{}, newFailure(input, outputs, failed, err, one.onFail != nil)
		}
		if out.Kind() == item.None {
			return item.Value{}, nil
		}
		v = out
		if len(c.steps) > 1 {
			outputs = append(outputs, out)
		}
	}
	return convert(v, c.typ)
}
