package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-ole/go-ole"
	"golang.org/x/sys/windows"

	"github.com/muster-fleet/muster/internal/item"
)

// errNoWMIResult reports a query without a result.
var errNoWMIResult = errors.New("the result of the WMI query is empty")

// wmiProperty is a property of an object that a WMI query has found.
type wmiProperty struct {
	name  string
	value any // nil: it has no value
}

// Classes and calls of WMI. Methods are places in the tables of its interfaces.
var (
	classWbemLocator     = ole.NewGUID("{4590F811-1D3A-11D0-891F-00AA004B2E24}")
	interfaceWbemLocator = ole.NewGUID("{DC12A687-737F-11CF-884D-00AA004B2E24}")
	coSetProxyBlanket    = windows.NewLazySystemDLL("ole32.dll").NewProc("CoSetProxyBlanket")
)

const (
	locatorConnectServer   = 3
	servicesExecQuery      = 20
	enumeratorNext         = 4
	objectBeginEnumeration = 8
	objectNext             = 9

	wmiTimedOut   = 0x40004
	wmiNoMoreData = 0x40005
)

// callMethod calls a method of an interface. The error is a failure; other statuses are numbers.
//
//go:uintptrescapes
func callMethod(object *ole.IUnknown, method int, arguments ...uintptr) (status uint32, err error) {
	table := *(**[64]uintptr)(unsafe.Pointer(object))
	result, _, _ := syscall.SyscallN(table[method], append([]uintptr{uintptr(unsafe.Pointer(object))}, arguments...)...)
	if status = uint32(result); int32(status) < 0 {
		err = fmt.Errorf("status 0x%X", status)
	}
	return status, err
}

// queryWMI calls the function `each` for each object in a WMI query's result, until each returns false.
func queryWMI(ctx context.Context, namespace, query string, each func(properties []wmiProperty) bool) error {
	runtime.LockOSThread() // COM belongs to a thread
	defer runtime.UnlockOSThread()
	const alreadyDone = 1 // S_FALSE
	var failed *ole.OleError
	if err := ole.CoInitializeEx(0, ole.COINIT_MULTITHREADED); err != nil && !(errors.As(err, &failed) && failed.Code() == alreadyDone) {
		return fmt.Errorf("WMI: %w", err)
	}
	defer ole.CoUninitialize()
	locator, err := ole.CreateInstance(classWbemLocator, interfaceWbemLocator)
	if err != nil {
		return fmt.Errorf("WMI: %w", err)
	}
	defer locator.Release()
	texts := [3]*int16{ole.SysAllocStringLen(namespace), ole.SysAllocStringLen("WQL"), ole.SysAllocStringLen(query)}
	defer func() {
		for _, text := range texts {
			_ = ole.SysFreeString(text)
		}
	}()
	var services, found *ole.IUnknown
	if _, err := callMethod(locator, locatorConnectServer, uintptr(unsafe.Pointer(texts[0])), 0, 0, 0, 0, 0, 0, uintptr(unsafe.Pointer(&services))); err != nil {
		return fmt.Errorf("WMI namespace %s: %w", namespace, err)
	}
	defer services.Release()
	const withPassword, perCall, impersonate = 10, 3, 3
	if status, _, _ := coSetProxyBlanket.Call(uintptr(unsafe.Pointer(services)), withPassword, 0, 0, perCall, impersonate, 0, 0); int32(status) < 0 {
		return fmt.Errorf("WMI: CoSetProxyBlanket: status 0x%X", uint32(status))
	}
	const forwardOnly, returnAtOnce = 32, 16
	if _, err := callMethod(services, servicesExecQuery, uintptr(unsafe.Pointer(texts[1])), uintptr(unsafe.Pointer(texts[2])), forwardOnly|returnAtOnce, 0, uintptr(unsafe.Pointer(&found))); err != nil {
		return fmt.Errorf("WMI query %s: %w", query, err)
	}
	defer found.Release()
	for {
		var object *ole.IUnknown
		var n uint32
		wait := itemTimeout
		if deadline, ok := ctx.Deadline(); ok {
			wait = max(time.Until(deadline), 0)
		}
		status, err := callMethod(found, enumeratorNext, uintptr(wait.Milliseconds()), 1, uintptr(unsafe.Pointer(&object)), uintptr(unsafe.Pointer(&n)))
		switch {
		case err != nil:
			return fmt.Errorf("WMI query %s: %w", query, err)
		case status == wmiTimedOut:
			return context.DeadlineExceeded
		case n == 0:
			return nil
		}
		properties, err := readProperties(object)
		object.Release()
		if err != nil || !each(properties) {
			return err
		}
	}
}

// readProperties returns the properties of a WMI object with their values.
func readProperties(object *ole.IUnknown) (properties []wmiProperty, err error) {
	const withoutSystem = 0x40
	if _, err := callMethod(object, objectBeginEnumeration, withoutSystem); err != nil {
		return nil, fmt.Errorf("WMI: properties: %w", err)
	}
	for {
		var name *int16
		var value ole.VARIANT
		status, err := callMethod(object, objectNext, 0, uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&value)), 0, 0)
		if err != nil {
			return nil, fmt.Errorf("WMI: properties: %w", err)
		}
		if status == wmiNoMoreData {
			return properties, nil
		}
		properties = append(properties, wmiProperty{ole.BstrToString((*uint16)(unsafe.Pointer(name))), variantValue(&value)})
		_ = ole.SysFreeString(name)
		_ = value.Clear()
	}
}

// variantValue returns a value of COM as a number, a text, a list, or nil. As in Zabbix, truths are the texts True
// and False, and negative whole numbers become large ones.
func variantValue(v *ole.VARIANT) any {
	if v.VT&ole.VT_ARRAY != 0 {
		array := v.ToArray()
		if kind, err := array.GetType(); err != nil || ole.VT(kind) == ole.VT_BOOL {
			return nil // go-ole reads two bytes of a truth into one
		}
		list := []any{}
		for _, one := range array.ToValueArray() {
			list = append(list, plainValue(one))
		}
		return list
	}
	return plainValue(v.Value())
}

// plainValue returns an unsigned number, a float or a text, or nil without a value.
func plainValue(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int8:
		return uint64(v)
	case int16:
		return uint64(v)
	case int32:
		return uint64(v)
	case int64:
		return uint64(v)
	case int:
		return uint64(v)
	case uint8:
		return uint64(v)
	case uint16:
		return uint64(v)
	case uint32:
		return uint64(v)
	case uint64:
		return v
	case float32:
		return float64(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil // JSON has none
		}
		return v
	case string:
		return v
	case *ole.IUnknown, *ole.IDispatch:
		return nil // an object in the object
	}
	return fmt.Sprint(v)
}

// wmiParameters returns the namespace and the query in the parameters of an item key.
func wmiParameters(k *Key) (namespace, query string, err error) {
	if namespace, query = k.Parameter(0, ""), k.Parameter(1, ""); namespace == "" || query == "" {
		err = fmt.Errorf(`%s: the namespace or the query is missing; write for example %s[root\cimv2,"select Status from Win32_DiskDrive"]`, k.Name, k.Name)
	}
	return namespace, query, err
}

// wmiValue collects the item wmi.get[NAMESPACE,QUERY], the first property of the first object that the query finds.
func wmiValue(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	namespace, query, err := wmiParameters(k)
	if err != nil {
		return item.Value{}, err
	}
	var value any
	err = queryWMI(ctx, namespace, query, func(properties []wmiProperty) bool {
		if len(properties) > 0 {
			value = properties[0].value
		}
		return false
	})
	if err != nil {
		return item.Value{}, err
	}
	switch v := value.(type) {
	case uint64:
		return item.FromUnsigned(v), nil
	case float64:
		return item.FromFloat(v), nil
	case string:
		return item.FromText(v), nil
	case nil:
		return item.Value{}, errNoWMIResult
	}
	return item.Value{}, fmt.Errorf("%s: the property is a list; wmi.getall has it", k.Name)
}

// wmiObjects collects the item wmi.getall[NAMESPACE,QUERY], all objects that the query finds, as JSON. Properties without
// a value are left out.
func wmiObjects(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	namespace, query, err := wmiParameters(k)
	if err != nil {
		return item.Value{}, err
	}
	rows := []map[string]any{}
	size := 0
	err = queryWMI(ctx, namespace, query, func(properties []wmiProperty) bool {
		row := map[string]any{}
		for _, p := range properties {
			if p.value != nil {
				row[p.name] = p.value
			}
		}
		text, _ := json.Marshal(row)
		size += len(text)
		rows = append(rows, row)
		return size <= maxList // jsonValue refuses a longer list
	})
	if err != nil {
		return item.Value{}, err
	}
	return jsonValue(rows)
}
