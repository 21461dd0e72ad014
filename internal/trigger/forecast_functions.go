package trigger

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// compileForecast compiles calls of forecast and timeleft, which fit a curve to the values of an item. Their
// forms are forecast(//key,1h,2h,fit,mode) and timeleft(//key,1h,threshold,fit). Both fit a function to the
// values of a period, with the time since the oldest value. -1 stands for a fit that the values do not permit.
func compileForecast(c *compiler, n *node) evaluator {
	most := 5
	if n.name == "timeleft" {
		most = 4
	}
	h := c.historyArguments(n, most, numeric...).requirePeriod()
	third := strings.TrimSuffix(h.argument(n, 2), "s")
	amount := ofText(third).number()
	if third == "" || amount.isUnknown() {
		c.fail(n, "%s needs a number as the third argument", n.name)
	}
	curve, problem := parseFit(h.argument(n, 3))
	if problem != "" {
		c.fail(n, "%s", problem)
	}
	mode := h.argument(n, 4)
	if !slices.Contains([]string{"", "value", "max", "min", "delta", "avg"}, mode) {
		c.fail(n, "the mode of forecast is value, max, min, delta or avg")
	}
	return h.compileOverPoints(0, func(_ *Windows, points []point) operand {
		f := curve
		if len(points) == 0 || !f.fit(points) {
			return ofFloat(-1)
		}
		now := nanosecond - points[0].at
		result := f.timeLeft(now, amount.Float())
		if n.name == "forecast" {
			result = f.forecast(now, amount.Float(), mode)
		}
		if math.IsNaN(result) {
			result = -1
		}
		return ofFloat(max(-math.MaxFloat64, min(math.MaxFloat64, result)))
	})
}

// nanosecond stands for the time of the oldest value, because the logarithm of zero does not exist.
const nanosecond = 1e-9

// curve is a function fitted to values by least squares. It is a polynomial of x; x and the result may be logarithms.
type curve struct {
	degree        int
	logX, logY    bool
	center, scale float64 // x is centered and scaled before its powers are taken
	coefficients  polynomial
}

// parseFit parses the name of a fitted function, such as linear or polynomial2.
func parseFit(name string) (f curve, problem string) {
	f.degree = 1
	switch name {
	case "", "linear":
	case "exponential":
		f.logY = true
	case "logarithmic":
		f.logX = true
	case "power":
		f.logX, f.logY = true, true
	default:
		digits, ok := strings.CutPrefix(name, "polynomial")
		degree, err := strconv.Atoi(digits)
		if !ok || err != nil || degree < 1 || degree > 6 {
			return f, "the fit is linear, polynomial1 to polynomial6, exponential, logarithmic or power"
		}
		f.degree = degree
	}
	return f, ""
}

// x converts seconds since the oldest value to the variable x of the fitted polynomial.
func (f *curve) x(t float64) float64 {
	if f.logX {
		t = math.Log(t)
	}
	return (t - f.center) / f.scale
}

// time converts the variable x of the fitted polynomial back to seconds since the oldest value.
func (f *curve) time(x float64) float64 {
	if t := x*f.scale + f.center; !f.logX {
		return t
	} else {
		return math.Exp(t)
	}
}

// value returns the value of the fitted function at a time.
func (f *curve) value(t float64) float64 {
	y := f.coefficients.at(f.x(t))
	if f.logY {
		return math.Exp(y)
	}
	return y
}

// fit computes the coefficients of the function by least squares. It reports whether the values permit it.
func (f *curve) fit(points []point) bool {
	f.center, f.scale = 0, 1
	first, last := nanosecond, points[len(points)-1].at-points[0].at+nanosecond
	f.center, f.scale = (f.x(first)+f.x(last))/2, max((f.x(last)-f.x(first))/2, nanosecond)
	n := min(f.degree, len(points)-1) + 1
	rows := make([][]float64, n) // normal equations
	for i := range rows {
		rows[i] = make([]float64, n+1)
	}
	for _, p := range points {
		x, y := f.x(p.at-points[0].at+nanosecond), p.value
		if f.logY {
			if y <= 0 {
				return false
			}
			y = math.Log(y)
		}
		power := 1.0
		for i := range n {
			inner := power * power
			for j := i; j < n; j++ {
				rows[i][j] += inner
				inner *= x
			}
			rows[i][n] += power * y
			power *= x
		}
	}
	for i := range n {
		for j := range i {
			rows[i][j] = rows[j][i]
		}
	}
	f.coefficients = solve(rows)
	return f.coefficients != nil
}

// solve solves linear equations by Gaussian elimination with pivots. It returns nil if they have no unique solution.
func solve(rows [][]float64) polynomial {
	n := len(rows)
	for i := range n {
		pivot := i
		for j := i + 1; j < n; j++ {
			if math.Abs(rows[j][i]) > math.Abs(rows[pivot][i]) {
				pivot = j
			}
		}
		rows[i], rows[pivot] = rows[pivot], rows[i]
		if math.Abs(rows[i][i]) < 1e-12 {
			return nil
		}
		for j := i + 1; j < n; j++ {
			factor := rows[j][i] / rows[i][i]
			for k := i; k <= n; k++ {
				rows[j][k] -= factor * rows[i][k]
			}
		}
	}
	out := make(polynomial, n)
	for i := n - 1; i >= 0; i-- {
		sum := rows[i][n]
		for j := i + 1; j < n; j++ {
			sum -= rows[i][j] * out[j]
		}
		out[i] = sum / rows[i][i]
	}
	return out
}

// polynomial holds the coefficients of a polynomial, by ascending power.
type polynomial []float64

// at returns the value of the polynomial at x.
func (p polynomial) at(x float64) float64 {
	sum := 0.0
	for i := len(p) - 1; i >= 0; i-- {
		sum = sum*x + p[i]
	}
	return sum
}

// derivative returns the derivative of the polynomial.
func (p polynomial) derivative() polynomial {
	out := make(polynomial, 0, len(p))
	for i := 1; i < len(p); i++ {
		out = append(out, float64(i)*p[i])
	}
	return out
}

// roots returns the real roots of a polynomial between two bounds, ascending. There is at most one in each interval
// between roots of the derivative.
func (p polynomial) roots(low, high float64) []float64 {
	if len(p) < 2 {
		return nil
	}
	var out []float64
	from := low
	for _, to := range append(p.derivative().roots(low, high), high) {
		a, b := from, to
		from = to
		signA, signB := p.at(a) > 0, p.at(b) > 0
		if signA == signB && p.at(b) != 0 {
			continue
		}
		for range 200 {
			middle := a + (b-a)/2
			if middle == a || middle == b {
				break
			}
			if p.at(middle) > 0 == signA && p.at(middle) != 0 {
				a = middle
			} else {
				b = middle
			}
		}
		out = append(out, b)
	}
	return out
}

// forecast returns the predicted value `ahead` seconds from now. Depending on mode it returns the minimum, maximum,
// range or mean of the values until then.
func (f *curve) forecast(now, ahead float64, mode string) float64 {
	end := now + ahead
	switch mode {
	case "", "value":
		return f.value(end)
	case "avg":
		return f.mean(now, end)
	}
	low, high := f.value(now), f.value(end)
	low, high = min(low, high), max(low, high)
	for _, x := range f.coefficients.derivative().roots(f.x(min(now, end)), f.x(max(now, end))) {
		v := f.value(f.time(x))
		low, high = min(low, v), max(high, v)
	}
	switch mode {
	case "min":
		return low
	case "max":
		return high
	}
	return high - low
}

// mean returns the mean of the fitted function between two times, by Simpson's rule. The rule is exact for cubic
// polynomials and precise to 1e-9 for the other fits.
func (f *curve) mean(from, to float64) float64 {
	if from == to {
		return f.value(from)
	}
	const steps = 1000
	sum := f.value(from) + f.value(to)
	for i := 1; i < steps; i++ {
		weight := 2.0
		if i%2 == 1 {
			weight = 4
		}
		sum += weight * f.value(from+(to-from)*float64(i)/steps)
	}
	return sum / 3 / steps
}

// timeLeft returns the seconds until the fitted function reaches a threshold. It returns the largest float if that
// never happens.
func (f *curve) timeLeft(now, threshold float64) float64 {
	if f.logY {
		if threshold <= 0 {
			return math.MaxFloat64
		}
		threshold = math.Log(threshold)
	}
	p := slices.Clone(f.coefficients)
	p[0] -= threshold
	if p.at(f.x(now)) == 0 {
		return 0
	}
	largest := 0.0
	for _, c := range p {
		largest = max(largest, math.Abs(c))
	}
	for len(p) > 1 && math.Abs(p[len(p)-1]) <= 1e-12*largest {
		p = p[:len(p)-1] // a constant fitted with noise reaches nothing
	}
	bound := 0.0 // all roots lie below it (Cauchy)
	for _, c := range p {
		bound = max(bound, math.Abs(c/p[len(p)-1]))
	}
	for _, x := range p.roots(f.x(now), max(f.x(now), 1+bound)) {
		if left := f.time(x) - now; left >= 0 {
			return left
		}
	}
	return math.MaxFloat64
}
