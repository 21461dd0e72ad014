package filter

import (
	"errors"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/muster-fleet/muster/internal/model"
)

const maxCalls = 128 // JavaScript calls inside each other

// sandbox is one interpreter with a program loaded.
type sandbox struct {
	runtime *goja.Runtime
	decide  goja.Callable
	now     time.Time // time of new Date() and seconds_since()
	depth   int       // of join within join
}

// allowedBuiltins returns the built-ins that stay, by object: their work is bounded by themselves or by bounds.go. Absent
// are those that run texts as code, use property descriptors (getters), double texts or recurse by themselves (repeat, …);
// JSON.stringify is replaced.
func allowedBuiltins() map[string]string {
	return map[string]string{
		"Object":           "prototype keys values entries assign freeze",
		"Object.prototype": "constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toString valueOf",
		"Array":            "prototype isArray",
		"Array.prototype":  "constructor length concat every filter find findIndex forEach includes indexOf join lastIndexOf map pop push reduce reduceRight reverse shift slice some sort splice toString unshift",
		"String":           "prototype fromCharCode",
		"String.prototype": "constructor length charAt charCodeAt concat endsWith includes indexOf lastIndexOf match replace search slice split startsWith substr substring toLowerCase toString toUpperCase trim valueOf",
		"Number":           "prototype isFinite isInteger isNaN MAX_VALUE MIN_VALUE NaN NEGATIVE_INFINITY POSITIVE_INFINITY MAX_SAFE_INTEGER",
		"Number.prototype": "constructor toFixed toPrecision toString valueOf",
		"Boolean":          "prototype", "Boolean.prototype": "constructor toString valueOf",
		"Date":             "prototype now parse UTC",
		"Date.prototype":   "constructor getDate getDay getFullYear getHours getMilliseconds getMinutes getMonth getSeconds getTime getTimezoneOffset getUTCDate getUTCDay getUTCFullYear getUTCHours getUTCMilliseconds getUTCMinutes getUTCMonth getUTCSeconds setDate setHours setMinutes setMonth setSeconds setTime setFullYear setUTCDate setUTCHours setUTCMinutes toISOString toString toUTCString valueOf",
		"RegExp.prototype": "exec test source global ignoreCase multiline flags",
		"Math":             "abs acos asin atan atan2 ceil cos exp floor log max min pow random round sin sqrt tan trunc E PI LN10 LN2",
		"JSON":             "parse stringify",
		"Error":            "prototype", "Error.prototype": "constructor name message",
		"TypeError": "prototype", "TypeError.prototype": "constructor name message",
		"RangeError": "prototype", "RangeError.prototype": "constructor name message",
		"SyntaxError": "prototype", "SyntaxError.prototype": "constructor name message",
		"ReferenceError": "prototype", "ReferenceError.prototype": "constructor name message",
		"Function.prototype": "call apply length name",
	}
}

const globals = "Object Array String Number Boolean Date RegExp Math JSON Error TypeError RangeError SyntaxError ReferenceError isNaN isFinite parseInt parseFloat undefined NaN Infinity hour minute second weekday seconds_since"

func newSandbox(code *goja.Program) (*sandbox, error) {
	s := &sandbox{runtime: goja.New()}
	s.runtime.SetMaxCallStackSize(maxCalls)
	s.runtime.SetTimeSource(func() time.Time { return s.now })
	s.runtime.SetParserOptions()
	if err := s.close(); err != nil {
		return nil, model.Errorf(model.Internal, "close the sandbox: %w", err)
	}
	fn, err := s.runtime.RunProgram(code)
	if err != nil {
		return nil, model.Errorf(model.Internal, "load the expression: %w", err)
	}
	decide, ok := goja.AssertFunction(fn)
	if !ok {
		return nil, model.Errorf(model.Internal, "the expression became no function")
	}
	s.decide = decide
	return s, nil
}

// close takes away, bounds and freezes.
func (s *sandbox) close() error {
	global := s.runtime.GlobalObject()
	object := global.Get("Object").ToObject(s.runtime)
	freeze, ok := goja.AssertFunction(object.Get("freeze"))
	if !ok {
		return errors.New("no Object.freeze")
	}
	objects := map[string]*goja.Object{}
	for path := range allowedBuiltins() {
		name, proto := strings.CutSuffix(path, ".prototype")
		objects[path] = global.Get(name).ToObject(s.runtime)
		if proto {
			objects[path] = objects[path].Get("prototype").ToObject(s.runtime)
		}
	}
	for path, names := range allowedBuiltins() {
		if err := prune(objects[path], names); err != nil {
			return err
		}
	}
	s.bound(objects)
	s.clock(global)
	if err := prune(global, globals); err != nil {
		return err
	}
	if err := global.DefineDataProperty(addend, s.runtime.ToValue(s.addend), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE); err != nil {
		return err
	}
	objects["RegExp"], objects["global"] = global.Get("RegExp").ToObject(s.runtime), global
	for _, o := range objects {
		for _, name := range o.GetOwnPropertyNames() {
			if f, ok := o.Get(name).(*goja.Object); ok {
				if _, err := freeze(nil, f); err != nil {
					return err
				}
			}
		}
		if _, err := freeze(nil, o); err != nil {
			return err
		}
	}
	return nil
}

func prune(o *goja.Object, names string) error {
	stays := map[string]bool{}
	for _, name := range strings.Fields(names) {
		stays[name] = true
	}
	for _, name := range o.GetOwnPropertyNames() {
		if stays[name] || name == "length" || name == "name" {
			continue
		}
		if err := o.Delete(name); err != nil {
			if _, object := o.Get(name).(*goja.Object); object {
				return err
			} // a constant such as Math.LN2: cannot be deleted, does no harm
		}
	}
	return nil
}

// clock gives the functions of Sensu: of a time in seconds since 1970, in UTC.
func (s *sandbox) clock(global *goja.Object) {
	of := func(f func(time.Time) int) func(goja.FunctionCall) goja.Value {
		return func(call goja.FunctionCall) goja.Value {
			return s.runtime.ToValue(f(time.Unix(call.Argument(0).ToInteger(), 0).UTC()))
		}
	}
	for name, f := range map[string]func(time.Time) int{
		"hour": time.Time.Hour, "minute": time.Time.Minute, "second": time.Time.Second,
		"weekday":       func(t time.Time) int { return int(t.Weekday()) }, // Sunday is 0
		"seconds_since": func(t time.Time) int { return int(s.now.Unix() - t.Unix()) },
	} {
		_ = global.Set(name, of(f)) // a new property of an object that is not frozen yet
	}
}
