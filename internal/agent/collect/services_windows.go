package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/muster-fleet/muster/internal/item"
)

// serviceStates are the states of a service in Windows, in the order of Zabbix's numbers.
var serviceStates = []uint32{
	windows.SERVICE_RUNNING, windows.SERVICE_PAUSED, windows.SERVICE_START_PENDING, windows.SERVICE_PAUSE_PENDING, windows.SERVICE_CONTINUE_PENDING,
	windows.SERVICE_STOP_PENDING, windows.SERVICE_STOPPED,
}

// Names of the states and of the ways to start a service, by Zabbix's numbers.
var (
	serviceStateNames   = []string{"running", "paused", "start pending", "pause pending", "continue pending", "stop pending", "stopped", "unknown"}
	serviceStartupNames = []string{"automatic", "automatic delayed", "manual", "disabled", "unknown"}
)

const (
	noSuchService  = 255 // the state of a service that does not exist
	disabledStart  = 3
	unknownStart   = 4
	triggeredStart = 5 // is added to the startup of a service that triggers start, too
)

// stateNumber returns Zabbix's number of a service's state, 7 for an unknown one.
func stateNumber(state uint32) int {
	if i := slices.Index(serviceStates, state); i >= 0 {
		return i
	}
	return len(serviceStates)
}

// serviceManager opens the machine's list of services.
func serviceManager() (windows.Handle, error) {
	return windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT|windows.SC_MANAGER_ENUMERATE_SERVICE)
}

// openService opens a service by its name or its displayed name. The service is 0 if this machine has no such service.
func openService(manager windows.Handle, name string) (windows.Handle, error) {
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return 0, err
	}
	const access = windows.SERVICE_QUERY_STATUS | windows.SERVICE_QUERY_CONFIG
	service, err := windows.OpenService(manager, text, access)
	if !errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) && !errors.Is(err, windows.ERROR_INVALID_NAME) {
		return service, err
	}
	real := make([]uint16, 257)
	size := uint32(len(real))
	if ok, _, _ := serviceNameOfDisplayed.Call(uintptr(manager), uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(&real[0])), uintptr(unsafe.Pointer(&size))); ok == 0 {
		return 0, nil
	}
	return windows.OpenService(manager, &real[0], access)
}

// queryService calls a query of Windows again with a buffer of the size that the query asks for.
func queryService(query func(buffer *byte, size uint32, needed *uint32) error) ([]byte, error) {
	size := uint32(1 << 10)
	for {
		buffer := make([]uint64, (size+7)/8) // aligned for the pointers in it
		data := unsafe.Slice((*byte)(unsafe.Pointer(&buffer[0])), len(buffer)*8)
		needed := uint32(0)
		err := query(&data[0], uint32(len(data)), &needed)
		if err == nil {
			return data, nil
		}
		if !errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) && !errors.Is(err, windows.ERROR_MORE_DATA) || needed <= size {
			return nil, err
		}
		size = needed
	}
}

// serviceSettings has the settings of a service.
type serviceSettings struct {
	displayName, path, user string
	startType               uint32
}

// readServiceSettings returns the settings of a service.
func readServiceSettings(service windows.Handle) (s serviceSettings, err error) {
	data, err := queryService(func(buffer *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig(service, (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(buffer)), size, needed)
	})
	if err != nil {
		return s, err
	}
	c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&data[0]))
	return serviceSettings{windows.UTF16PtrToString(c.DisplayName), windows.UTF16PtrToString(c.BinaryPathName), windows.UTF16PtrToString(c.ServiceStartName), c.StartType}, nil
}

// readServiceInfo returns additional settings of a service, as a structure of Windows.
func readServiceInfo(service windows.Handle, level uint32) ([]byte, error) {
	return queryService(func(buffer *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig2(service, level, buffer, size, needed)
	})
}

// serviceDescription returns the description of a service.
func serviceDescription(service windows.Handle) (string, error) {
	data, err := readServiceInfo(service, windows.SERVICE_CONFIG_DESCRIPTION)
	if err != nil {
		return "", err
	}
	return windows.UTF16PtrToString((*windows.SERVICE_DESCRIPTION)(unsafe.Pointer(&data[0])).Description), nil
}

// startup returns Zabbix's number for the start of a service, and whether triggers start the service.
func startup(service windows.Handle, startType uint32) (number int, triggered bool) {
	switch startType {
	case windows.SERVICE_AUTO_START:
		data, err := readServiceInfo(service, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO)
		if err == nil && (*windows.SERVICE_DELAYED_AUTO_START_INFO)(unsafe.Pointer(&data[0])).IsDelayedAutoStartUp != 0 {
			number = 1
		}
	case windows.SERVICE_DEMAND_START:
		number = 2
	case windows.SERVICE_DISABLED:
		return disabledStart, false
	default:
		return unknownStart, false
	}
	const triggers = 8 // SERVICE_CONFIG_TRIGGER_INFO, a structure that begins with the number of triggers
	data, err := readServiceInfo(service, triggers)
	return number, err == nil && *(*uint32)(unsafe.Pointer(&data[0])) > 0
}

// serviceInformation collects the item service.info[NAME,state|displayname|path|user|startup|description].
func serviceInformation(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	name, what := k.Parameter(0, ""), k.Parameter(1, "state")
	if name == "" {
		return item.Value{}, fmt.Errorf("%s: the name of a service is missing; service.discovery lists the names", k.Name)
	}
	if modes := []string{"state", "displayname", "path", "user", "startup", "description"}; !slices.Contains(modes, what) {
		return item.Value{}, errUnknownMode(k, 1, modes...)
	}
	manager, err := serviceManager()
	if err != nil {
		return item.Value{}, err
	}
	defer windows.CloseServiceHandle(manager)
	service, err := openService(manager, name)
	switch {
	case err != nil:
		return item.Value{}, fmt.Errorf("service %s: %w", name, err)
	case service == 0 && what == "state":
		return item.FromUnsigned(noSuchService), nil
	case service == 0:
		return item.Value{}, fmt.Errorf("this machine has no service %s; service.discovery lists the names", name)
	}
	defer windows.CloseServiceHandle(service)
	switch what {
	case "state":
		var status windows.SERVICE_STATUS
		err := windows.QueryServiceStatus(service, &status)
		return item.FromUnsigned(uint64(stateNumber(status.CurrentState))), err
	case "description":
		text, err := serviceDescription(service)
		return item.FromText(text), err
	}
	s, err := readServiceSettings(service)
	if err != nil {
		return item.Value{}, err
	}
	switch what {
	case "displayname":
		return item.FromText(s.displayName), nil
	case "path":
		return item.FromText(s.path), nil
	case "user":
		return item.FromText(s.user), nil
	}
	number, triggered := startup(service, s.startType)
	if triggered {
		number += triggeredStart
	}
	return item.FromUnsigned(uint64(number)), nil
}

// listedService is a service in the list of all services, with a handle that its visitor may use.
type listedService struct {
	handle            windows.Handle
	name, displayName string
	state             uint32
}

// visitServices calls the function `each` for every service that the agent may read.
func visitServices(each func(s *listedService)) error {
	manager, err := serviceManager()
	if err != nil {
		return err
	}
	defer windows.CloseServiceHandle(manager)
	count := uint32(0)
	data, err := queryService(func(buffer *byte, size uint32, needed *uint32) error {
		err := windows.EnumServicesStatusEx(manager, windows.SC_ENUM_PROCESS_INFO, windows.SERVICE_WIN32, windows.SERVICE_STATE_ALL, buffer, size, needed, &count, nil, nil)
		*needed += size // Windows tells the size of the rest
		return err
	})
	if err != nil {
		return err
	}
	for _, one := range unsafe.Slice((*windows.ENUM_SERVICE_STATUS_PROCESS)(unsafe.Pointer(&data[0])), count) {
		handle, err := windows.OpenService(manager, one.ServiceName, windows.SERVICE_QUERY_STATUS|windows.SERVICE_QUERY_CONFIG)
		if err != nil {
			continue
		}
		each(&listedService{handle, windows.UTF16PtrToString(one.ServiceName), windows.UTF16PtrToString(one.DisplayName), one.ServiceStatusProcess.CurrentState})
		_ = windows.CloseServiceHandle(handle)
	}
	return nil
}

// discoverServices collects the item service.discovery, the services for Zabbix's low-level discovery.
func discoverServices(context.Context, *machine, *Key) (item.Value, error) {
	type row struct {
		Name        string `json:"{#SERVICE.NAME}"`
		DisplayName string `json:"{#SERVICE.DISPLAYNAME}"`
		Description string `json:"{#SERVICE.DESCRIPTION}"`
		State       int    `json:"{#SERVICE.STATE}"`
		StateName   string `json:"{#SERVICE.STATENAME}"`
		Path        string `json:"{#SERVICE.PATH}"`
		User        string `json:"{#SERVICE.USER}"`
		Triggered   int    `json:"{#SERVICE.STARTUPTRIGGER}"`
		Startup     int    `json:"{#SERVICE.STARTUP}"`
		StartupName string `json:"{#SERVICE.STARTUPNAME}"`
	}
	rows := []row{}
	err := visitServices(func(s *listedService) {
		settings, err := readServiceSettings(s.handle)
		if err != nil {
			return // it has been deleted meanwhile
		}
		description, _ := serviceDescription(s.handle)
		state := stateNumber(s.state)
		number, triggered := startup(s.handle, settings.startType)
		r := row{s.name, s.displayName, description, state, serviceStateNames[state], settings.path, settings.user, 0, number, serviceStartupNames[number]}
		if triggered {
			r.Triggered = 1
		}
		rows = append(rows, r)
	})
	if err != nil {
		return item.Value{}, err
	}
	return jsonValue(rows)
}

// serviceNames collects the item services[all|automatic|manual|disabled,STATE,EXCLUDED], the names of services, one a
// line, or 0 without one.
func serviceNames(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	types := map[string]uint32{"all": 0, "automatic": windows.SERVICE_AUTO_START, "manual": windows.SERVICE_DEMAND_START, "disabled": windows.SERVICE_DISABLED}
	startType, ok := types[k.Parameter(0, "all")]
	if !ok {
		return item.Value{}, errUnknownMode(k, 0, "all", "automatic", "manual", "disabled")
	}
	wanted := strings.ReplaceAll(k.Parameter(1, "all"), "_", " ")
	if wanted != "all" && wanted != "started" && !slices.Contains(serviceStateNames[:len(serviceStates)], wanted) {
		return item.Value{}, errUnknownMode(k, 1, "all", "stopped", "started", "start_pending", "stop_pending", "running", "continue_pending", "pause_pending", "paused")
	}
	excluded := strings.Split(k.Parameter(2, ""), ",")
	var names strings.Builder
	err := visitServices(func(s *listedService) {
		name := serviceStateNames[stateNumber(s.state)]
		if wanted != "all" && wanted != name && (wanted != "started" || name == "stopped") || slices.Contains(excluded, s.name) {
			return
		}
		if startType != 0 {
			if settings, err := readServiceSettings(s.handle); err != nil || settings.startType != startType {
				return
			}
		}
		names.WriteString(s.name + "\n")
	})
	return item.FromText(cmp.Or(names.String(), "0")), err
}
