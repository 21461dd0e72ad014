package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/pause"
)

// Functions of the Performance Data Helper.
var (
	pdh                   = windows.NewLazySystemDLL("pdh.dll")
	pdhOpenQuery          = pdh.NewProc("PdhOpenQueryW")
	pdhCloseQuery         = pdh.NewProc("PdhCloseQuery")
	pdhAddCounter         = pdh.NewProc("PdhAddCounterW")
	pdhAddEnglishCounter  = pdh.NewProc("PdhAddEnglishCounterW")
	pdhCollectQueryData   = pdh.NewProc("PdhCollectQueryData")
	pdhFormattedValue     = pdh.NewProc("PdhGetFormattedCounterValue")
	pdhEnumObjectItems    = pdh.NewProc("PdhEnumObjectItemsW")
	pdhLookupNameByNumber = pdh.NewProc("PdhLookupPerfNameByIndexW")
)

// pdhStatus is an error of the Performance Data Helper.
type pdhStatus uint32

// Statuses of the Performance Data Helper that callers handle.
const (
	pdhNoObject         pdhStatus = 0xC0000BB8
	pdhNoCounter        pdhStatus = 0xC0000BB9
	pdhInvalidData      pdhStatus = 0xC0000BBA
	pdhBadPath          pdhStatus = 0xC0000BC0
	pdhMoreData         pdhStatus = 0x800007D2
	pdhNoInstance       pdhStatus = 0x800007D1
	pdhNoData           pdhStatus = 0x800007D5
	pdhNegativeDivisor  pdhStatus = 0x800007D6
	pdhNegativeValue    pdhStatus = 0x800007D8
	pdhNoSecondSample   pdhStatus = 0xC0000BC6
	pdhCounterNotThere  pdhStatus = 0xC0000BC4
	pdhInvalidArgument  pdhStatus = 0xC0000BBD
	pdhEntryNotInSystem pdhStatus = 0xC0000BBF
)

// pdhTexts explain statuses.
var pdhTexts = map[pdhStatus]string{
	pdhNoObject: "this machine has no such object", pdhNoCounter: "the object has no such counter", pdhNoInstance: "the object has no such instance",
	pdhBadPath: `the path is not \object(instance)\counter`, pdhInvalidArgument: `the path is not \object(instance)\counter`,
	pdhNoData: "the counter has no data", pdhInvalidData: "the counter has no valid data",
}

// Error returns the text of the status.
func (s pdhStatus) Error() string {
	return cmp.Or(pdhTexts[s], fmt.Sprintf("the performance counters of Windows report status 0x%X", uint32(s)))
}

// callPDH calls a function of the Performance Data Helper.
//
//go:uintptrescapes
func callPDH(of *windows.LazyProc, arguments ...uintptr) error {
	if err := of.Find(); err != nil {
		return err
	}
	if status, _, _ := of.Call(arguments...); status != 0 {
		return pdhStatus(status)
	}
	return nil
}

// counterPath is the path of a performance counter, with names in English or in the machine's language.
type counterPath struct {
	path    string
	english bool
}

// openCounter is a query of one performance counter.
type openCounter struct{ query, counter uintptr }

// open opens a query of the counter. Close it.
func (p counterPath) open() (c openCounter, err error) {
	text, err := windows.UTF16PtrFromString(p.path)
	if err != nil {
		return c, err
	}
	if err := callPDH(pdhOpenQuery, 0, 0, uintptr(unsafe.Pointer(&c.query))); err != nil {
		return c, err
	}
	add := pdhAddCounter
	if p.english {
		add = pdhAddEnglishCounter
	}
	if err := callPDH(add, c.query, uintptr(unsafe.Pointer(text)), 0, uintptr(unsafe.Pointer(&c.counter))); err != nil {
		c.close()
		return c, fmt.Errorf("performance counter %s: %w", p.path, err)
	}
	return c, nil
}

// close closes the query.
func (c openCounter) close() { _ = callPDH(pdhCloseQuery, c.query) }

// read collects the counter and returns its value. A rate has none before the second call.
func (c openCounter) read() (float64, error) {
	if err := callPDH(pdhCollectQueryData, c.query); err != nil {
		return 0, err
	}
	var v struct {
		status uint32
		_      uint32
		value  float64
	}
	const asFloat, without100 = 0x200, 0x8000 // PDH_FMT_DOUBLE, PDH_FMT_NOCAP100
	err := callPDH(pdhFormattedValue, c.counter, asFloat|without100, 0, uintptr(unsafe.Pointer(&v)))
	return v.value, err
}

// now returns the present value of the counter. A rate is that of one second.
func (p counterPath) now(ctx context.Context) (float64, error) {
	c, err := p.open()
	if err != nil {
		return 0, err
	}
	defer c.close()
	value, err := c.read()
	if needsSecondSample(err) {
		if pause.For(ctx, time.Second) != nil {
			return 0, ctx.Err()
		}
		value, err = c.read()
	}
	if err != nil {
		return 0, fmt.Errorf("performance counter %s: %w", p.path, err)
	}
	return value, nil
}

// needsSecondSample reports whether an error says that a rate needs another sample.
func needsSecondSample(err error) bool {
	var status pdhStatus
	return errors.As(err, &status) && slices.Contains([]pdhStatus{pdhInvalidData, pdhNoSecondSample, pdhNegativeDivisor, pdhNegativeValue}, status)
}

// counterSamples samples performance counters once a second, for items with the mean of a time. Its method run does it.
type counterSamples struct {
	mu   sync.Mutex // guards list
	list map[counterPath]*sampledCounter
	wake chan struct{} // capacity 1: the list has its first counter
}

// sampledCounter has the last samples of a counter.
type sampledCounter struct {
	counter openCounter
	values  []float64 // the newest last
	most    int       // number of values that an item needs
	used    time.Time
}

const (
	maxSampledSeconds = 900
	unusedAfter       = time.Hour // a counter that no item needs any more is closed
)

// channel returns the channel that wakes run.
func (s *counterSamples) channel() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake == nil {
		s.wake, s.list = make(chan struct{}, 1), map[counterPath]*sampledCounter{}
	}
	return s.wake
}

// run samples the counters once a second until ctx ends.
func (s *counterSamples) run(ctx context.Context) {
	wake := s.channel()
	for {
		select {
		case <-ctx.Done():
			s.sample(time.Time{})
			return
		case <-wake:
		}
		for s.sample(time.Now()) && pause.For(ctx, time.Second) == nil {
		}
	}
}

// sample takes a sample of each counter, and closes unused counters. At the time zero all are unused. It reports whether
// counters are left.
func (s *counterSamples) sample(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, c := range s.list {
		if now.IsZero() || now.Sub(c.used) > unusedAfter {
			c.counter.close()
			delete(s.list, path)
			continue
		}
		if value, err := c.counter.read(); err == nil {
			c.values = append(c.values, value)
			c.values = c.values[max(len(c.values)-c.most, 0):]
		}
	}
	return len(s.list) > 0
}

// mean returns the mean of a counter over the last seconds. The first call returns the present value, and begins to
// sample the counter.
func (s *counterSamples) mean(ctx context.Context, path counterPath, seconds int) (float64, error) {
	wake := s.channel()
	s.mu.Lock()
	c := s.list[path]
	if c == nil {
		counter, err := path.open()
		if err != nil {
			s.mu.Unlock()
			return 0, err
		}
		c = &sampledCounter{counter: counter}
		s.list[path] = c
		pause.Wake(wake)
	}
	c.most, c.used = max(c.most, seconds), time.Now()
	values := c.values[max(len(c.values)-seconds, 0):]
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	n := len(values)
	s.mu.Unlock()
	if n == 0 {
		return path.now(ctx)
	}
	return sum / float64(n), nil
}

// performanceCounter returns a function that collects perf_counter[PATH,SECONDS] or perf_counter_en, with names in the
// machine's language or in English. The value is a mean over the seconds.
func performanceCounter(english bool) measureFunc {
	return func(ctx context.Context, m *machine, k *Key) (item.Value, error) {
		path := counterPath{k.Parameter(0, ""), english}
		if path.path == "" {
			return item.Value{}, fmt.Errorf(`%s: the path is missing; write for example %s["\Processor(_Total)\%% Processor Time"]`, k.Name, k.Name)
		}
		seconds, err := strconv.Atoi(k.Parameter(1, "1"))
		if err != nil || seconds < 1 || seconds > maxSampledSeconds {
			return item.Value{}, fmt.Errorf("%s: the interval %q is not a number of seconds from 1 to %d", k.Name, k.Parameter(1, ""), maxSampledSeconds)
		}
		if !english {
			if path.path, err = namedCounterPath(path.path); err != nil {
				return item.Value{}, err
			}
		}
		value := 0.0
		if seconds == 1 {
			value, err = path.now(ctx)
		} else {
			value, err = m.samples.mean(ctx, path, seconds)
		}
		return item.FromFloat(value), err
	}
}

// namedCounterPath returns the path of a counter with names in place of numbers, as in \2\16.
func namedCounterPath(path string) (string, error) {
	end := strings.LastIndexByte(path, '\\')
	start := strings.LastIndexByte(path[:max(end, 0)], '\\')
	if start < 0 {
		return path, nil // PDH says that the path is wrong
	}
	object, instance := path[start+1:end], ""
	if open := strings.IndexByte(object, '('); open >= 0 {
		object, instance = object[:open], object[open:]
	}
	object, err := counterName(object)
	if err != nil {
		return "", err
	}
	counter, err := counterName(path[end+1:])
	return path[:start+1] + object + instance + `\` + counter, err
}

// counterName returns the name of an object or counter with a number. A text that is no number is the name.
func counterName(text string) (string, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return text, nil
	}
	name := make([]uint16, 1024)
	size := uint32(len(name))
	if err := callPDH(pdhLookupNameByNumber, 0, uintptr(number), uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&size))); err != nil {
		return "", fmt.Errorf("performance counter number %s: %w", text, err)
	}
	return windows.UTF16ToString(name), nil
}

// localObjectName returns the name in the machine's language of an object with an English name.
func localObjectName(english string) (string, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows NT\CurrentVersion\Perflib\009`, registry.QUERY_VALUE)
	if err != nil {
		return "", err
	}
	defer k.Close()
	list, _, err := k.GetStringsValue("Counter") // pairs of number and name
	if err != nil {
		return "", err
	}
	for i := 1; i < len(list); i += 2 {
		if list[i] == english {
			return counterName(list[i-1])
		}
	}
	return "", pdhNoObject
}

// performanceInstances returns a function that collects perf_instance.discovery[OBJECT] or perf_instance_en.discovery.
// They list the instances of an object of performance counters for Zabbix's low-level discovery.
func performanceInstances(english bool) measureFunc {
	return func(_ context.Context, _ *machine, k *Key) (item.Value, error) {
		object := k.Parameter(0, "")
		if object == "" {
			return item.Value{}, fmt.Errorf("%s: the object is missing; write for example %s[PhysicalDisk]", k.Name, k.Name)
		}
		var err error
		if english {
			if object, err = localObjectName(object); err != nil {
				return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
			}
		}
		instances, err := objectInstances(object)
		if err != nil {
			return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
		}
		rows := []map[string]string{}
		for _, instance := range instances {
			rows = append(rows, map[string]string{"{#INSTANCE}": instance})
		}
		return jsonValue(rows)
	}
}

// objectInstances returns the names of the instances of an object of performance counters, each once.
func objectInstances(object string) ([]string, error) {
	name, err := windows.UTF16PtrFromString(object)
	if err != nil {
		return nil, err
	}
	counters, instances := []uint16{0}, []uint16{0}
	var counterSize, instanceSize uint32
	for tries := 0; ; tries++ {
		const allDetails = 400 // PERF_DETAIL_WIZARD
		err := callPDH(pdhEnumObjectItems, 0, 0, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&counters[0])), uintptr(unsafe.Pointer(&counterSize)),
			uintptr(unsafe.Pointer(&instances[0])), uintptr(unsafe.Pointer(&instanceSize)), allDetails, 0)
		if err == nil {
			break
		}
		if err != pdhMoreData || tries == 5 { // more instances may start meanwhile
			return nil, err
		}
		counters, instances = make([]uint16, counterSize+1), make([]uint16, instanceSize+1)
	}
	if instanceSize == 0 {
		return nil, errors.New("the object has no instances")
	}
	list := splitList(instances)
	slices.Sort(list)
	return slices.Compact(list), nil
}
