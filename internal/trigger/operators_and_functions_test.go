package trigger

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
)

// start is the time of the tests, Monday 2024-02-05 12:00:00 UTC.
const start = 1707134400 * int64(time.Second)

// testItems has the item keys of tests. A key is the name of its type, maybe with a number behind.
var testItems = []string{"float", "unsigned", "text", "log", "boolean", "float2"}

// testScope has the test items and the macros {$A} = 5, {$P} = 5m and {$T} = text.
var testScope = Scope{
	Item: func(host, key string) (int, item.Type, error) {
		for i, name := range testItems {
			if name == key {
				t, _ := item.ParseType(strings.TrimRight(name, "2"))
				return i, t, nil
			}
		}
		return 0, 0, fmt.Errorf("no item has the key %s", key)
	},
	Macro: func(macro string) (string, error) {
		if v, ok := map[string]string{"{$A}": "5", "{$P}": "5m", "{$T}": "text"}[macro]; ok {
			return v, nil
		}
		return "", errors.New("no macro " + macro)
	},
}

// compileText compiles an expression over the test items and test macros. It fails the test on an error.
func compileText(t testing.TB, expression string) *Program {
	t.Helper()
	e, err := Parse(expression)
	testenv.NoError(t, err)
	p, err := Compile(e, testScope)
	testenv.NoError(t, err)
	return p
}

// valueOf converts a Go value of a test to an item's value.
func valueOf(v any) item.Value {
	switch v := v.(type) {
	case float64:
		return item.FromFloat(v)
	case int:
		return item.FromUnsigned(uint64(v))
	case uint64:
		return item.FromUnsigned(v)
	case string:
		return item.FromText(v)
	}
	panic("BUG: no item value")
}

// addValues adds test values of an item to a program, one per minute. The last value has the time start.
func addValues(p *Program, w *Windows, key string, values ...any) {
	position, _, _ := testScope.Item("", key)
	for i, v := range values {
		p.Add(w, position, item.Sample{At: start - int64(len(values)-1-i)*int64(time.Minute), Value: valueOf(v)})
	}
}

// TestOperators evaluates expressions with operators, number suffixes, texts and unknown operands, and expects their
// results.
func TestOperators(t *testing.T) {
	for expression, want := range map[string]string{
		"1 + 2 * 3": "7", "3 + 4*2/(1-5)": "1", "2*3-1": "5", "8/4/2": "1", "1-1-1": "-1", "- \"2\"": "-2", "--1": "1", "2--1": "3",
		"1+3*4=13": "1", "not 1": "0", "not not 1": "1", "not 1=0": "1", "not(1=0)": "1", "-1+2": "1", "-2*-2": "4", "1<2=1": "1", "1=1<2": "1",
		"1 or 0 and 0": "1", "0 and 0 or 1": "1", "(1 or 0)and 0": "0", "1<>2": "1", "2<>2": "0", "2<=2": "1", "3<=2": "0", "2>=3": "0",
		"1K": "1024", "1m=60s": "1", "2w": "1209600", "1T": "1099511627776", "1.5K": "1536", ".5h": "1800", "1e3": "1000", "1.0": "1",
		"0.1+0.2=0.3": "1", "18446744073709551615=18446744073709551614": "0", "18446744073709551615>18446744073709551614": "1",
		`"x\"y\\z"`: `x"y\z`, `"xyz"="xyz"`: "1", `"xyz"<>"abc"`: "1", `"1"="1.0"`: "1", `"1m"=60`: "1", `1="a"`: "0", `"10">"9"`: "1",
		"{$A}": "5", "{$A}*2": "10", "{$P}=300": "1", `"{$T}s"`: "texts", `"a{2}"`: "a{2}", "{TRIGGER.VALUE}=0": "1",
		"last(//float) or 1": "1", "1 or last(//float)": "1", "last(//float)and 0": "0", "0 and last(//float)": "0", "last(//float)+2 or 1": "1",
		`"a" or 1`: "1", "1/0 or 1": "1", "not(last(//float)*0=1 and 0)": "1",

		"last(//float) or 0":   "no value of //float yet",
		"last(//float)and 1":   "no value of //float yet",
		"1 and last(//float)":  "no value of //float yet",
		"not last(//float)":    "no value of //float yet",
		"last(//float)<>1":     "no value of //float yet",
		"abs(last(//float))":   "no value of //float yet",
		`1<"g"`:                `cannot use the text "g" as a number`,
		`not "a"`:              `cannot use the text "a" as a number`,
		`"a" and "b"`:          `cannot use the text "a" as a number`,
		"1/0":                  "division by zero",
		"1e308*10":             "the result is infinite or not a number",
		"avg(//float,5m)>1":    "no value of //float in 5m",
		"nodata(//float,2h)":   "no value of //float yet, and its period of 2h has not passed",
		`last(//text)="{$T}"`:  "no value of //text yet",
		"last(//float,#3) > 1": "fewer than 3 values of //float",
	} {
		p := compileText(t, expression)
		v, err := p.Value(p.NewWindows(start-int64(time.Hour)), start)
		got := v.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", expression, got, want)
		}
	}
}

// TestScalarFunctions evaluates each function over operands at 2024-02-05 12:00:00, and expects its result.
func TestScalarFunctions(t *testing.T) {
	for expression, want := range map[string]string{
		"abs(-5)": "5", "abs(18446744073709551615)": "18446744073709551615", "cbrt(27)": "3", "ceil(1.2)": "2", "floor(-1.2)": "-2", "exp(0)": "1",
		"expm1(0)": "0", "log(e())": "1", "log10(1000)": "3", "sqrt(16)": "4", "signum(-3)": "-1", "power(2,10)": "1024", "mod(7,3)": "1", "mod(-7,3)": "-1",
		"round(2.567,2)": "2.57", "round(-2.5,0)": "-3", "truncate(2.567,2)": "2.56", "round(pi(),4)": "3.1416", "degrees(pi())": "180",
		"radians(180)=pi()": "1", "round(atan2(1,1),4)": "0.7854", "cos(0)": "1", "sin(0)": "0", "acos(1)": "0", "asin(0)": "0", "atan(0)": "0", "cosh(0)": "1",
		"sinh(0)": "0", "tan(0)": "0", "round(cot(1),4)": "0.6421",
		"min(2,1)": "1", "max(2s,1m)": "60", "sum(1,2,3)": "6", "avg(1,2,9)": "4", "min(max(1,3),max(2,4))": "3", `max("2","1")`: "2",
		"between(5,1,10)": "1", "between(0,1,10)": "0", "in(5,1,5)": "1", "in(6,1,5)": "0", `in("b","a","b")`: "1",
		"bitand(12,10)": "8", "bitor(12,10)": "14", "bitxor(12,10)": "6", "bitnot(18446744073709551615)": "0", "bitlshift(1,4)": "16", "bitrshift(16,2)": "4",
		`length("äbc")`: "3", `bytelength("äbc")`: "4", `bitlength("abc")`: "24", "bitlength(4)": "3", "bytelength(256)": "2", "length(4)": "1",
		`ascii("Abc")`: "65", "char(65)": "A", `concat("a",1,"b")`: "a1b", `insert("Zabbix",3,3,"ne")`: "Zanex", `mid("Zabbix",2,4)`: "abbi",
		`left("Zabbix",3)`: "Zab", `left("ab",9)`: "ab", `right("Zabbix",3)`: "bix", `repeat("ab",3)`: "ababab", `replace("a-b-c","-","+")`: "a+b+c",
		`trim("  ab ")`: "ab", `ltrim("xxab","x")`: "ab", `rtrim("abxx","x")`: "ab",
		"now()": "1707134400", "date()": "20240205", "time()": "120000", "dayofmonth()": "5", "dayofweek()": "1",

		`abs("xyz")`: `cannot use the text "xyz" as a number`, "sqrt(-1)": "the result is infinite or not a number", "mod(1,0)": "division by zero",
		"bitand(1.5,1)": "bitand needs whole numbers", `mid("abc",5,1)`: "mid needs a place inside the text", "char(256)": "char needs a number from 0 to 255",
		`repeat("ab",99999999)`: "repeat needs a number, and a result of at most 64 KiB", "round(1,99)": "the number of decimal places is from 0 to 14",
		`replace(repeat("a",9999),"a",repeat("b",9999))`: "a function made a text of more than 64 KiB",
	} {
		p := compileText(t, expression)
		v, err := p.Value(p.NewWindows(start), start)
		got := v.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", expression, got, want)
		}
	}
}

// TestHistoryFunctions evaluates each history function over one value per minute, and expects its result.
func TestHistoryFunctions(t *testing.T) {
	series := map[string][]any{
		"float":    {1.0, 3.0, 2.0, 6.0, 4.0, 4.0},
		"unsigned": {10, 20, 5, 15, 25, uint64(1)<<63 + 1},
		"boolean":  {0, 0, 1, 1},
		"text":     {"one", "two", "two", "three"},
		"log":      {"info: start", "error: disk", "info: stop"},
	}
	for expression, want := range map[string]string{
		"last(//float)": "4", "last(//float,#2)": "4", "last(//float,#3)": "6", "last(//unsigned)": "9223372036854775809", "last(//text)": "three", "last(//text,#4)": "one",
		"last(//float,#1:now-2m)": "6", "last(//text,#1:now-1m)": "two", "last(//float,#7)": "fewer than 7 values of //float",
		"lastclock(//float,#2)=now()-60": "1", "firstclock(//float,3m)=now()-2m": "1",
		"first(//float,3m)": "6", "changecount(//float,#1)": "fewer than 2 values of //float in #1", "first(//text,1h)": "one", "first(//text,2h)": "one", "first(//float,1m:now-2m)": "6",
		"min(//float,3m)": "4", "min(//float,1h)": "1", "max(//float,#3)": "6", "max(//unsigned,5m)": "9223372036854775809", "min(//unsigned,#4)": "5", "max(//float,2m:now-3m)": "3",
		"avg(//float,3m)": "4.666666666666667", "avg(//float,#2)": "4", "sum(//float,1h)": "20", "sum(//unsigned,#2)": "9223372036854775834", "avg(//unsigned,2m:now-1m)": "20",
		"sum(//float,2h)": "20", "avg(//float,1d:now-1d)": "no value of //float in 1d:now-1d", "sum(//boolean,#4)": "2", "sum(//float,3m:now/h)": "14",
		"count(//float,1h)": "6", "count(//float,#3)": "3", `count(//float,1h,,"4")`: "2", `count(//float,1h,"gt",3)`: "3", `count(//float,#4,"le",4)`: "3",
		`count(//float,1h,"ne",-1)`: "6", `count(//float,1h,"ge","{$A}")`: "1", `count(//unsigned,1h,"bitand","4/5")`: "1", `count(//unsigned,1h,"bitand","5")`: "2",
		`count(//text,1h,"regexp","^t")`: "3", `count(//text,1h,"iregexp","^T.*e$")`: "1", `count(//text,#2,,"tw")`: "1", `count(//text,1h,"eq","tw")`: "0", `count(//float,2h:now-1h)`: "0",
		`count(//text,1h,"regexp","^(?!two)")`: "2", `count(//log,1h,"like","error")`: "1",
		"countunique(//float,1h)": "5", "countunique(//text,1h)": "3", "countunique(//text,#3)": "2", `countunique(//float,1h,"gt",2)`: "3",
		`find(//log,,"like","stop")`: "1", `find(//log,#2,,"disk")`: "1", `find(//log,,"regexp","disk")`: "0", `find(//float,1h,"eq","6")`: "1", `find(//text,30s,"like","one")`: "0",
		"change(//float)": "0", "change(//unsigned)": "9223372036854775784", "change(//text)": "1", "change(//boolean)": "0",
		"changecount(//float,1h)": "4", `changecount(//float,1h,"inc")`: "2", `changecount(//float,#4,"dec")`: "1", "changecount(//text,1h)": "2",
		"monoinc(//float,#2)": "1", `monoinc(//float,#2,"strict")`: "0", "monodec(//float,#3)": "1", "monoinc(//float,1h)": "0",
		"monoinc(//float,#2:now-2m)": "1", "monodec(//float,5m:now-1d)": "no value of //float in 5m:now-1d", "changecount(//float,#3:now-2m)": "2",
		`count(//float,#3:now-2m,"gt",2)`: "2", "countunique(//float,5m:now-1d)": "0", "max(//float,1h:now/h-3m)": "3",
		"bitand(//unsigned,,1)": "1", "bitand(//unsigned,#2,8)": "8", "fuzzytime(//float,60s)": "0",
		"nodata(//float,30s)": "0", "nodata(//float2,30s)": "1", `nodata(//float2,30s,"strict")`: "1",
		"percentile(//float,1h,50)": "3", "percentile(//float,1h,100)": "6", "percentile(//float,1h,0)": "1", "percentile(//float,#3,95)": "6",
		"rate(//unsigned,4m:now-1m)": "0.1388888888888889", "rate(//unsigned,#2:now-1m)": "0.16666666666666666",
		"mad(//float,1h)": "1", "sumofsquares(//float,1h)": "82", "varpop(//float,#4)": "2", "stddevpop(//float,#4)": "1.4142135623730951",
		"round(varsamp(//float,1h),6)": "3.066667", "round(stddevsamp(//float,1h),6)": "1.75119", "round(kurtosis(//float,1h),6)": "2.137996", "round(skewness(//float,1h),6)": "0.181317",
		"varsamp(//float,#1)": "fewer than 2 values of //float in #1", "kurtosis(//float,#2)": "the result is infinite or not a number",
		"find(//float2,5m,,1)": "0", "sum(//float2,5m)": "0", "sum(//float,1m:now-1d)": "0", "count(//float2,5m)": "0", "change(//float2)": "fewer than 2 values of //float2",
	} {
		p := compileText(t, expression)
		w := p.NewWindows(start - int64(time.Hour))
		for key, list := range series {
			addValues(p, w, key, list...)
		}
		v, err := p.Value(w, start)
		got := v.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", expression, got, want)
		}
	}
}

// TestForecast evaluates forecast and timeleft over values that follow a formula, and expects continuations of
// the formula. The values come one per minute, ten in all.
func TestForecast(t *testing.T) {
	for _, c := range []struct {
		expression string
		value      func(minute float64) float64 // minute 9 is now
		want       string
	}{
		{"forecast(//float,1h,10m)", func(m float64) float64 { return 2*m + 1 }, "39"},
		{`forecast(//float,1h,10m,"linear","avg")`, func(m float64) float64 { return 2*m + 1 }, "29"},
		{`forecast(//float,1h,10m,,"delta")`, func(m float64) float64 { return 2*m + 1 }, "20"},
		{`forecast(//float,1h,0)`, func(m float64) float64 { return 7 }, "7"},
		{`forecast(//float,#1,1h)`, func(m float64) float64 { return m }, "9"},
		{`forecast(//float,1h,2m,"polynomial2")`, func(m float64) float64 { return m * m }, "121"},
		{`forecast(//float,1h,10m,"polynomial2","min")`, func(m float64) float64 { return (m-12)*(m-12) + 2 }, "2"},
		{`forecast(//float,1h,10m,"polynomial2","max")`, func(m float64) float64 { return (m - 12) * (m - 12) }, "49"},
		{`forecast(//float,1h,1m,"polynomial6")`, func(m float64) float64 { return m * m * m * m }, "10000"},
		{`forecast(//float,1h,1m,"exponential")`, func(m float64) float64 { return math.Exp2(m) }, "1024"},
		{`forecast(//float,1h,1m,"exponential")`, func(m float64) float64 { return m - 3 }, "-1"},
		{`forecast(//float,1h,10m,"logarithmic")`, func(m float64) float64 { return 5 + 3*math.Log(60*m+nanosecond) }, "26.1164"},
		{`forecast(//float,1h,10m,"power")`, func(m float64) float64 { return 2 * math.Sqrt(60*m+nanosecond) }, "67.5278"},
		{`timeleft(//float,1h,60,"power")`, func(m float64) float64 { return 2 * math.Sqrt(60*m+nanosecond) }, "360"},
		{"timeleft(//float,1h,39)", func(m float64) float64 { return 2*m + 1 }, "600"},
		{"timeleft(//float,1h,0)", func(m float64) float64 { return 2*m + 1 }, "1.7976931348623157e+308"},
		{"timeleft(//float,1h,5)", func(m float64) float64 { return 3 }, "1.7976931348623157e+308"},
		{"timeleft(//float,1h,0)", func(m float64) float64 { return 90 - 9*m }, "60"},
		{`timeleft(//float,1h,0,"polynomial2")`, func(m float64) float64 { return 144 - m*m }, "180"},
		{`timeleft(//float,1h,4096,"exponential")`, func(m float64) float64 { return math.Exp2(m) }, "180"},
		{`timeleft(//float,1h,0,"exponential")`, func(m float64) float64 { return math.Exp2(m) }, "1.7976931348623157e+308"},
	} {
		p := compileText(t, "round("+c.expression+",4)")
		w := p.NewWindows(0)
		for m := range 10 {
			p.Add(w, 0, item.Sample{At: start + int64(m-9)*int64(time.Minute), Value: item.FromFloat(c.value(float64(m)))})
		}
		v, err := p.Value(w, start)
		if got := v.String(); err != nil || got != c.want {
			t.Errorf("%s: %s %v, expected %s", c.expression, got, err, c.want)
		}
	}
}

// TestPublishedResults evaluates functions over one value per minute, and expects the results of Zabbix's own tests.
func TestPublishedResults(t *testing.T) {
	five, six := []any{1, 2, 3, 4, 5}, []any{1, 26, 12, 16, 56, 112, 24}
	for _, c := range []struct {
		series     []any
		expression string
		want       string
	}{
		{six, "round(kurtosis(//unsigned,6m),6)", "3.050521"}, {six, "round(skewness(//unsigned,6m),6)", "1.24294"}, {six, "round(stddevpop(//unsigned,6m),6)", "34.751499"},
		{six, "round(stddevsamp(//unsigned,6m),6)", "38.06836"}, {six, "sumofsquares(//unsigned,6m)", "17332"}, {six, "round(varpop(//unsigned,6m),6)", "1207.666667"},
		{six, "round(varsamp(//unsigned,6m),6)", "1449.2"}, {six, "mad(//unsigned,6m)", "11"}, {[]any{100, 1, 1, 2, 2, 4, 6, 9}, "mad(//unsigned,7m)", "1"},
		{five, "forecast(//unsigned,#5,1h)", "65"}, {five, "forecast(//unsigned,#5:now-1h,1h)", "-1"}, {five, "timeleft(//unsigned,5m,65)", "3600"},
		{five, "percentile(//unsigned,5m,50)", "3"}, {five, "avg(//unsigned,#2:now-1m)", "3.5"}, {five, "avg(//unsigned,180)", "4"}, {five, "last(//unsigned,:now-2m)", "3"},
		{five, "bitand(//unsigned,#2:now-1m,2)", "2"}, {five, `count(//unsigned,5m,"bitand","1/3")`, "2"}, {five, `count(//unsigned,5m,"bitand","2/3")`, "1"},
		{five, "sum(//unsigned,4m:now-1m)", "10"}, {five, "max(//unsigned,5m:now-2m)", "3"}, {five, "min(//unsigned,4m:now-2m)", "1"}, {five, "first(//unsigned,60:now-2m)", "3"},
		{[]any{uint64(math.MaxUint64), uint64(math.MaxUint64 - 5)}, "change(//unsigned)", "-5"}, {[]any{uint64(math.MaxUint64 - 5), uint64(math.MaxUint64)}, "change(//unsigned)", "5"},
		{[]any{"One", "Two", "Three", "Four", "Five"}, `count(//text,5m,"regexp","o$")`, "1"}, {[]any{"One", "Two", "Three", "Four", "Five"}, `count(//text,5m,"iregexp","o")`, "3"},
		{[]any{"One", "Two", "", "Four"}, `count(//text,5m,"iregexp")`, "4"}, {[]any{"One", "Two", "", "Four"}, `count(//text,5m,"eq")`, "1"},
		{[]any{1, 2, 1, 2, 3}, "rate(//unsigned,4m)*60", "1"}, {[]any{1, 2, 3}, "rate(//unsigned,3m)*60", "1"}, {[]any{1, 1, 1}, "rate(//unsigned,3m)", "0"},
		{[]any{50, 110}, "round(rate(//unsigned,1h)*3600,6)", "110"},
		{[]any{6, 6, 5, 4, 3}, `monodec(//unsigned,#4,"strict")`, "1"}, {[]any{6, 6, 5, 4, 3}, `monodec(//unsigned,#5,"strict")`, "0"}, {[]any{1}, "monoinc(//unsigned,#6)", "1"},
	} {
		p := compileText(t, c.expression)
		w := p.NewWindows(0)
		key := "unsigned"
		if _, ok := c.series[0].(string); ok {
			key = "text"
		}
		addValues(p, w, key, c.series...)
		v, err := p.Value(w, start)
		if got := v.String(); err != nil || got != c.want {
			t.Errorf("%s: %s %v, expected %s", c.expression, got, err, c.want)
		}
	}
}

// TestTrends evaluates the trend functions over four days of values, and expects their results. A value comes every
// ten minutes; it is ten times the day's number.
func TestTrends(t *testing.T) {
	for expression, want := range map[string]string{
		"trendavg(//float,1h:now/h)": "40", "trendavg(//float,1d:now/d)": "30", "trendmin(//float,2d:now/d)": "20", "trendmax(//float,1d:now/d-1d)": "20",
		"trendsum(//float,1d:now/d)": "4320", "trendcount(//float,1d:now/d)": "144", "trendcount(//float,1w:now/w)": "288", "trendcount(//float,1M:now/M)": "no value of //float in 1M:now/M",
		"trendavg(//float,1h:now/h-1d)": "30", "trendsum(//unsigned,1h:now/h)": "no value of //unsigned in 1h:now/h",
		`baselinewma(//float,1h:now/h,"d",3)`: "23.333333333333332", `round(baselinedev(//float,1h:now/h,"d",3),4)`: "1.3416",
		`baselinedev(//float,1h:now/h,"h",3)`:  "0",
		`baselinewma(//float2,1h:now/h,"d",3)`: `no value of //float2 in 1h:now/h`, `baselinedev(//float,1h:now/h,"w",3)`: "baselinedev needs values of //float in the period and in an earlier season",
	} {
		p := compileText(t, expression)
		first := start - int64(12*time.Hour) - int64(2*24*time.Hour) // Saturday; start is Monday at noon
		w := p.NewWindows(first)
		last := start + int64(24*time.Hour) // Tuesday at noon
		for at := first; at <= last; at += int64(10 * time.Minute) {
			p.Add(w, 0, item.Sample{At: at, Value: item.FromFloat(float64(10 * (1 + (at-first)/int64(24*time.Hour))))})
		}
		v, err := p.Value(w, last)
		got := v.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", expression, got, want)
		}
	}
}

// TestPeriods computes periods with time shifts, and expects their start and end. Some cross the change to summer
// time.
func TestPeriods(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Riga")
	testenv.NoError(t, err)
	for _, c := range []struct{ period, now, begin, end string }{
		{"5m", "2024-02-05 12:00:00", "2024-02-05 11:55:00", "2024-02-05 12:00:00"},
		{"1h:now-1d", "2024-02-05 12:00:00", "2024-02-04 11:00:00", "2024-02-04 12:00:00"},
		{"1d:now/d", "2024-02-05 12:34:56", "2024-02-04 00:00:00", "2024-02-05 00:00:00"},
		{"1w:now/w", "2024-02-11 12:34:56", "2024-01-29 00:00:00", "2024-02-05 00:00:00"},
		{"1h:now/h-1w", "2024-02-05 12:34:56", "2024-01-29 11:00:00", "2024-01-29 12:00:00"},
		{"1M:now/M", "2024-03-31 12:00:00", "2024-02-01 00:00:00", "2024-03-01 00:00:00"},
		{"1y:now/y", "2024-03-31 12:00:00", "2023-01-01 00:00:00", "2024-01-01 00:00:00"},
		{"1m:now-1M", "2024-03-31 12:00:00", "2024-02-29 11:59:00", "2024-02-29 12:00:00"},
		{"1h:now-1d", "2024-03-31 12:00:00", "2024-03-30 11:00:00", "2024-03-30 12:00:00"},
		{"1h:now/d+3h-1d", "2024-04-01 12:00:00", "2024-03-31 02:00:00", "2024-03-31 04:00:00"},
	} {
		p, problem := parsePeriod(c.period, zone)
		at := func(text string) int64 {
			v, err := time.ParseInLocation(time.DateTime, text, zone)
			testenv.NoError(t, err)
			return v.UnixNano()
		}
		p.exclusive = p.month > 0
		end := p.end(at(c.now))
		begin := p.startOf(end)
		if p.exclusive {
			end, begin = end+1, begin+1
		}
		if problem != "" || end != at(c.end) || begin != at(c.begin) {
			t.Errorf("%s at %s: %s from %v to %v", c.period, c.now, problem, time.Unix(0, begin).In(zone), time.Unix(0, end).In(zone))
		}
	}
}

// TestDeadline checks Deadline, which returns when a time function next changes the result without new values.
// The result must change exactly at the deadlines.
func TestDeadline(t *testing.T) {
	minute := int64(time.Minute)
	for _, c := range []struct {
		expression string
		want       []int64 // minutes after the value
	}{
		{"last(//float)=1", nil},
		{"nodata(//float,5m)=1", []int64{5}},
		{"nodata(//float,5m)=1 or nodata(//float,1h)", []int64{5, 60}},
		{"nodata(//float2,10m)=1", []int64{8}},
		{"dayofweek()=2", []int64{720}},
	} {
		p := compileText(t, c.expression)
		w := p.NewWindows(start - 2*minute)
		p.Add(w, 0, item.Sample{At: start, Value: item.FromFloat(1)})
		for _, want := range c.want {
			before, _ := p.Eval(w, start)
			at := p.Deadline(w)
			almost, _ := p.Eval(w, at-1)
			after, reason := p.Eval(w, at)
			if at != start+want*minute || almost != before || want != 60 && after != True {
				t.Errorf("%s: deadline after %v, %v then %v %s", c.expression, time.Duration(at-start), almost, after, reason)
			}
		}
		if at := p.Deadline(w); at != 0 && c.expression != "dayofweek()=2" || p.HasTimeFunctions() != (c.want != nil) {
			t.Errorf("%s: another deadline %v", c.expression, time.Duration(at-start))
		}
	}
	p := compileText(t, "time()<100 and now()>0 or trendavg(//float,1h:now/h)=1")
	if w := p.NewWindows(start + 1); p.Deadline(w) != start+30*int64(time.Second) {
		t.Errorf("deadline of time(): %v", time.Duration(p.Deadline(w)-start))
	}
}

// TestRestart simulates a server restart, and expects nodata to count missing values only from the restart on.
// Adopt keeps the values of unchanged windows.
func TestRestart(t *testing.T) {
	p := compileText(t, "nodata(//float,5m)=1")
	w := p.NewWindows(start)
	w.Restart(start + int64(time.Hour))
	if got, reason := p.Eval(w, start+int64(time.Hour)); got != Unknown {
		t.Errorf("nodata at the start of the server: %v %s", got, reason)
	}
	if got, _ := p.Eval(w, start+int64(time.Hour+5*time.Minute)); got != True {
		t.Errorf("nodata after its period: %v", got)
	}
	old := compileText(t, "last(//float)>1 and avg(//float,5m)>1")
	state := old.NewWindows(start)
	state.Problem = true
	old.Add(state, 0, item.Sample{At: start, Value: item.FromFloat(3)})
	edited := compileText(t, "avg(//float,5m)*2=6 and min(//float,5m)>1 and {TRIGGER.VALUE}")
	state = edited.MigrateWindows(old, state)
	if got, reason := edited.Eval(state, start); got != Unknown || reason != "no value of //float in 5m" {
		t.Errorf("an edited expression: %v %s", got, reason)
	}
	edited.Add(state, 0, item.Sample{At: start + 1, Value: item.FromFloat(3)})
	if got, reason := edited.Eval(state, start); got != True {
		t.Errorf("an edited expression: %v %s", got, reason)
	}
}

// hot has the expressions whose evaluation must allocate no memory for a value.
var hot = []string{
	"last(//float)>5", "min(//float,5m)>5", "avg(//float,5m)>5", "sum(//unsigned,#10)>5", `count(//float,5m,"gt",5)>3`, "avg(//float,1h)>5", "max(//float,7d)>5",
	"last(//float)>5 and last(//unsigned)<3 or change(//float)>2", `find(//text,,"like","error")=1`,
}

// TestValuesCostNoAllocation adds values and evaluates common functions, and expects no memory allocation.
func TestValuesCostNoAllocation(t *testing.T) {
	for _, expression := range hot {
		p := compileText(t, expression)
		w := p.NewWindows(start)
		at, positions := start, p.ItemIndexes()
		step := func() {
			at += int64(10 * time.Second)
			for _, position := range positions {
				v := item.FromFloat(float64(at / 1e10 % 17))
				if position == 2 {
					v = item.FromText("an error of a disk")
				}
				p.Add(w, position, item.Sample{At: at, Value: v})
			}
			p.Eval(w, at)
		}
		for range 1000 {
			step()
		}
		if n := testing.AllocsPerRun(1000, step); n > 0 {
			t.Errorf("%s: %v allocations for a value", expression, n)
		}
	}
}

// BenchmarkValue measures adding a value, evaluating an expression, and the memory of the expression's stored
// values.
func BenchmarkValue(b *testing.B) {
	for _, expression := range append(hot, "percentile(//float,5m,95)>5") {
		b.Run(expression, func(b *testing.B) {
			p := compileText(b, expression)
			w := p.NewWindows(start)
			positions := p.ItemIndexes()
			text := item.FromText("an error of a disk")
			at := start
			b.ReportAllocs()
			for b.Loop() {
				at += int64(time.Second)
				for _, position := range positions {
					v := item.FromFloat(float64(at / 1e9 % 17))
					if position == 2 {
						v = text
					}
					p.Add(w, position, item.Sample{At: at, Value: v})
				}
				p.Eval(w, at)
			}
			b.ReportMetric(float64(cap(w.list[0].entries)*16+len(w.list)*int(unsafe.Sizeof(window{}))), "B/state")
		})
	}
}
