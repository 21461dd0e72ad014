package filter

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"

	"github.com/muster-fleet/muster/internal/model"
)

const maxCalls = 128 // JavaScript calls inside each other

// sandbox is a JavaScript interpreter with restricted functions, so that expressions can do no harm. Each
// sandbox runs one program.
type sandbox struct {
	runtime *goja.Runtime
	decide  goja.Callable
	now     time.Time   // time of new Date() and seconds_since()
	seed    uint64      // of Math.random in scripts
	depth   int         // calls of Array.join inside each other
	late    atomic.Bool // the evaluation has reached its time limit
}

// boundBacktracking limits the time of one match by the backtracking engine of regular expressions. The interpreter
// uses that second engine behind the first match in a text.
var boundBacktracking = sync.OnceFunc(func() { regexp2.DefaultMatchTimeout = TimeLimit })

// allowedBuiltins returns the built-in JavaScript objects with the methods that expressions may use. Absent are those
// that run texts as code, use property descriptors (getters), double texts or recurse by themselves (repeat, …);
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

// newSandbox returns a JavaScript interpreter with restricted built-in functions and a loaded program. A script
// has some of Zabbix's functions.
func newSandbox(code *goja.Program, script bool) (*sandbox, error) {
	boundBacktracking()
	s := &sandbox{runtime: goja.New()}
	s.runtime.SetMaxCallStackSize(maxCalls)
	s.runtime.SetTimeSource(func() time.Time { return s.now })
	s.runtime.SetParserOptions()
	if err := s.restrictBuiltins(script); err != nil {
		return nil, model.Errorf(model.Internal, "restrict the JavaScript interpreter: %w", err)
	}
	fn, err := s.runtime.RunProgram(code)
	if err != nil {
		return nil, model.Errorf(model.Internal, "load the expression into the interpreter: %w", err)
	}
	decide, ok := goja.AssertFunction(fn)
	if !ok {
		return nil, model.Errorf(model.Internal, "the expression did not compile to a JavaScript function")
	}
	s.decide = decide
	return s, nil
}

// restrictBuiltins removes dangerous built-in JavaScript functions, and limits the others.
func (s *sandbox) restrictBuiltins(script bool) error {
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
		if err := removeOtherProperties(objects[path], names); err != nil {
			return err
		}
	}
	s.boundBuiltins(objects)
	s.addClock(global)
	if err := removeOtherProperties(global, globals); err != nil {
		return err
	}
	if err := global.DefineDataProperty(addend, s.runtime.ToValue(s.checkRightOperand), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE); err != nil {
		return err
	}
	if script {
		objects["Zabbix"] = s.addZabbixFunctions(global)
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

// removeOtherProperties removes all properties of a built-in JavaScript object except the named properties.
func removeOtherProperties(o *goja.Object, names string) error {
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

// addClock adds the functions hour, minute and weekday of Sensu, which read a time in seconds since 1970.
func (s *sandbox) addClock(global *goja.Object) {
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

// Bounds of one call of a built-in JavaScript function.
const (
	maxText      = 1 << 20  // bytes of the text and its arguments together
	maxAddend    = 64 << 10 // characters on the right side of a +
	maxMatch     = 16 << 10 // characters that a regular expression looks at
	maxSought    = 4 << 10  // characters of a text that is sought in another, or in an array
	maxArray     = 10_000   // elements
	maxSort      = 1_000
	maxJoinDepth = 32 // arrays inside each other
)

// throwTooLarge throws a JavaScript error about a value that is too large for a filter.
func (s *sandbox) throwTooLarge(what string) {
	panic(s.runtime.NewTypeError("too large for a filter: " + what))
}

// boundBuiltins limits the sizes of the arguments of built-in JavaScript methods.
func (s *sandbox) boundBuiltins(objects map[string]*goja.Object) {
	before := func(path, names string, look func(name string, call goja.FunctionCall)) {
		for _, name := range strings.Fields(names) {
			original, ok := goja.AssertFunction(objects[path].Get(name))
			if !ok {
				continue // length, constructor
			}
			_ = objects[path].Set(name, func(call goja.FunctionCall) goja.Value { // not frozen yet
				look(name, call)
				v, err := original(call.This, call.Arguments...)
				if err != nil {
					panic(err)
				}
				return v
			})
		}
	}
	all := allowedBuiltins()
	without := func(path, name string) string { return strings.ReplaceAll(all[path], name+" ", "") }
	before("Array.prototype", without("Array.prototype", "constructor"), s.checkArray)
	before("String.prototype", without("String.prototype", "constructor"), s.checkTextCall)
	before("JSON", "parse", func(_ string, call goja.FunctionCall) { s.checkLength(maxText/4, call.Argument(0)) })
	before("RegExp.prototype", "exec test", func(_ string, call goja.FunctionCall) {
		if s.late.Load() { // match, replace and split call exec for each match, without an instruction between two calls
			panic(s.runtime.NewTypeError("out of time"))
		}
		s.checkLength(maxMatch, call.Argument(0))
	})
	before("Function.prototype", "apply", func(_ string, call goja.FunctionCall) {
		if o, ok := call.Argument(1).(*goja.Object); ok {
			s.arrayLength(o, maxArray)
		}
	})
	_ = objects["JSON"].Set("stringify", s.boundedStringify)
	_ = objects["Array.prototype"].Set("join", s.boundedJoin)
	_ = objects["Array.prototype"].Set("toString", func(call goja.FunctionCall) goja.Value {
		return s.boundedJoin(goja.FunctionCall{This: call.This})
	})
	s.boundPatterns(objects["RegExp.prototype"])
}

// checkRightOperand throws a JavaScript error if the text to the right of a + is too long. It throws a
// JavaScript error for a text above the length limit.
func (s *sandbox) checkRightOperand(call goja.FunctionCall) goja.Value {
	v := call.Argument(0)
	switch v := v.(type) {
	case *goja.Object:
		panic(s.runtime.NewTypeError("cannot add an object: name one of its properties, or use String(…)"))
	case goja.String:
		if v.Length() > maxAddend {
			s.throwTooLarge("the right side of +")
		}
	}
	return v
}

// checkLength throws a JavaScript error if texts are too long together. It also throws if an argument is an object.
func (s *sandbox) checkLength(limit int, texts ...goja.Value) {
	sum := 0
	for _, v := range texts {
		switch v := v.(type) {
		case *goja.Object:
			panic(s.runtime.NewTypeError("expected a string, not an object"))
		case goja.String:
			if sum += v.Length(); sum > limit {
				s.throwTooLarge("a text")
			}
		}
	}
}

// arrayLength returns the length of a JavaScript array, and throws an error above the limit. It refuses other values
// and arrays longer than limit.
func (s *sandbox) arrayLength(o *goja.Object, limit int64) int64 {
	if o.ClassName() != "Array" {
		panic(s.runtime.NewTypeError("expected an array"))
	}
	n := o.Get("length").ToInteger()
	if n > limit {
		s.throwTooLarge("an array")
	}
	return n
}

// checkArray throws a JavaScript error if an array method is called with too large arrays.
func (s *sandbox) checkArray(name string, call goja.FunctionCall) {
	this, ok := call.This.(*goja.Object)
	if !ok {
		panic(s.runtime.NewTypeError("expected an array"))
	}
	if name != "sort" {
		s.arrayLength(this, maxArray)
		switch name {
		case "indexOf", "lastIndexOf", "includes":
			s.checkSearchText(call.Argument(0))
		}
		for _, a := range call.Arguments {
			if o, ok := a.(*goja.Object); ok && name == "concat" && o.ClassName() == "Array" {
				s.arrayLength(o, maxArray)
			}
		}
		return
	}
	n := s.arrayLength(this, maxSort)
	for i := range n {
		v := this.Get(s.runtime.ToValue(i).String())
		if _, object := v.(*goja.Object); object && len(call.Arguments) == 0 {
			panic(s.runtime.NewTypeError("sorting objects needs a function"))
		}
		if text, ok := v.(goja.String); ok && text.Length() > maxAddend {
			s.throwTooLarge("a text that is sorted")
		}
	}
}

// boundedJoin replaces the built-in Array.prototype.join by a function that limits nesting and length of the
// result.
func (s *sandbox) boundedJoin(call goja.FunctionCall) goja.Value {
	this, ok := call.This.(*goja.Object)
	if !ok {
		panic(s.runtime.NewTypeError("expected an array"))
	}
	if s.depth++; s.depth > maxJoinDepth {
		s.depth--
		s.throwTooLarge("arrays inside each other")
	}
	defer func() { s.depth-- }()
	separator := ","
	if v := call.Argument(0); !goja.IsUndefined(v) {
		s.checkLength(maxAddend, v)
		separator = v.String()
	}
	var b strings.Builder
	for i := range s.arrayLength(this, maxArray) {
		if i > 0 {
			b.WriteString(separator)
		}
		if v := this.Get(s.runtime.ToValue(i).String()); v != nil && !goja.IsUndefined(v) && !goja.IsNull(v) {
			b.WriteString(v.String())
		}
		if b.Len() > maxText {
			s.throwTooLarge("the joined text")
		}
	}
	return s.runtime.ToValue(b.String())
}

// checkTextCall throws a JavaScript error if a method of texts, such as repeat, gets too large arguments.
func (s *sandbox) checkTextCall(name string, call goja.FunctionCall) {
	if name == "toString" || name == "valueOf" {
		return
	}
	s.checkLength(maxText, call.This)
	args := call.Arguments
	pattern := false
	if o, ok := call.Argument(0).(*goja.Object); ok && o.ClassName() == "RegExp" {
		pattern, args = true, args[1:]
		s.checkLength(maxMatch, call.This)
	}
	s.checkLength(maxText, append([]goja.Value{call.This}, args...)...)
	switch name {
	case "indexOf", "lastIndexOf", "includes", "split", "replace":
		s.checkSearchText(call.Argument(0))
	}
	switch name {
	case "match", "search":
		if !pattern {
			panic(s.runtime.NewTypeError(name + " needs a regular expression, such as /text/"))
		}
	case "replace":
		s.checkReplace(call.This, call.Argument(1))
	}
}

// checkSearchText throws a JavaScript error if a search argument, such as that of indexOf, is too long. A search
// compares the text at each position.
func (s *sandbox) checkSearchText(v goja.Value) {
	if text, ok := v.(goja.String); ok && text.Length() > maxSought {
		s.throwTooLarge("the text that is sought")
	}
}

// checkReplace throws a JavaScript error if the result of a text replacement could be too long.
func (s *sandbox) checkReplace(this, by goja.Value) {
	with := by.String()
	n, m := len(this.String()), len(with)
	for _, c := range with {
		if c == '$' { // may stand for the whole text
			m += n
		}
	}
	if m > 0 && n+1 > 4*maxText/m {
		s.throwTooLarge("the result of replace")
	}
}

// boundPatterns makes the built-in RegExp refuse too large or slow regular expressions. The check is checkPattern.
func (s *sandbox) boundPatterns(prototype *goja.Object) {
	original := s.runtime.Get("RegExp")
	constructor := s.runtime.ToValue(func(call goja.ConstructorCall) *goja.Object {
		s.checkLength(maxAddend, call.Arguments...)
		if flags := call.Argument(1); !goja.IsUndefined(flags) && strings.Trim(flags.String(), "gim") != "" {
			panic(s.runtime.NewTypeError("a regular expression can only have the flags g, i and m"))
		}
		if source, ok := call.Argument(0).(goja.String); ok {
			call.Arguments[0] = s.runtime.ToValue(expandNonSpaceClass(source.String()))
		}
		if err := checkPattern(call.Argument(0).String()); err != nil {
			panic(s.runtime.NewTypeError(err.Error()))
		}
		o, err := s.runtime.New(original, call.Arguments...)
		if err != nil {
			panic(err)
		}
		return o
	}).ToObject(s.runtime)
	_ = constructor.Set("prototype", prototype) // none of them is frozen yet
	_ = prototype.Set("constructor", constructor)
	_ = s.runtime.Set("RegExp", constructor)
}
