package collect

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/muster-fleet/muster/internal/item"
)

// hives are the first parts of keys of the registry.
var hives = map[string]registry.Key{
	"HKEY_CLASSES_ROOT": registry.CLASSES_ROOT, "HKCR": registry.CLASSES_ROOT, "HKEY_CURRENT_CONFIG": registry.CURRENT_CONFIG, "HKCC": registry.CURRENT_CONFIG,
	"HKEY_CURRENT_USER": registry.CURRENT_USER, "HKCU": registry.CURRENT_USER, "HKEY_LOCAL_MACHINE": registry.LOCAL_MACHINE, "HKLM": registry.LOCAL_MACHINE,
	"HKEY_PERFORMANCE_DATA": registry.PERFORMANCE_DATA, "HKPD": registry.PERFORMANCE_DATA, "HKEY_USERS": registry.USERS, "HKU": registry.USERS,
}

// openRegistryKey opens the key of the registry that an item key's first parameter names. Close it.
func openRegistryKey(k *Key) (registry.Key, error) {
	path := k.Parameter(0, "")
	name, rest, ok := strings.Cut(path, `\`)
	hive, known := hives[name]
	if !ok || !known {
		return 0, fmt.Errorf(`%s: the key %q does not begin with a hive, as in HKLM\SOFTWARE\Microsoft`, k.Name, path)
	}
	key, err := registry.OpenKey(hive, rest, registry.READ)
	if err != nil {
		return 0, fmt.Errorf("registry key %s: %w", path, err)
	}
	return key, nil
}

// registryTypes are the names of types of values.
var registryTypes = map[uint32]string{
	registry.NONE: "REG_NONE", registry.SZ: "REG_SZ", registry.EXPAND_SZ: "REG_EXPAND_SZ", registry.BINARY: "REG_BINARY", registry.DWORD: "REG_DWORD",
	registry.LINK: "REG_LINK", registry.MULTI_SZ: "REG_MULTI_SZ", registry.QWORD: "REG_QWORD",
}

// errLongRegistryValue reports a value that no item can hold.
var errLongRegistryValue = fmt.Errorf("the value has over %d KiB", maxList>>10)

// readRegistryValue returns a value of a key with its type.
func readRegistryValue(key registry.Key, name string) (data []byte, kind uint32, err error) {
	size := 1 << 10
	for {
		data = make([]byte, size)
		n, kind, err := key.GetValue(name, data)
		if n > maxList {
			return nil, kind, errLongRegistryValue
		}
		if errors.Is(err, registry.ErrShortBuffer) && n > size {
			size = n
			continue
		}
		return data[:min(n, size)], kind, err
	}
}

// registryValue returns a value as a number, a text or a list of texts. Bytes are a text in Base64, and other types have
// no value.
func registryValue(data []byte, kind uint32) any {
	switch {
	case kind == registry.BINARY:
		return base64.StdEncoding.EncodeToString(data)
	case kind == registry.DWORD && len(data) >= 4:
		return binary.LittleEndian.Uint32(data)
	case kind == registry.QWORD && len(data) >= 8:
		return binary.LittleEndian.Uint64(data)
	case kind == registry.NONE:
		return 0
	}
	text := make([]uint16, len(data)/2)
	for i := range text {
		text[i] = binary.LittleEndian.Uint16(data[2*i:])
	}
	switch kind {
	case registry.SZ, registry.EXPAND_SZ:
		return windows.UTF16ToString(text)
	case registry.MULTI_SZ:
		return append([]string{}, splitList(text)...)
	}
	return nil
}

// registryData collects the item registry.data[KEY,NAME], a value of the registry. Without a name the value is the
// key's own.
func registryData(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	key, err := openRegistryKey(k)
	if err != nil {
		return item.Value{}, err
	}
	defer key.Close()
	data, kind, err := readRegistryValue(key, k.Parameter(1, ""))
	if err != nil {
		return item.Value{}, fmt.Errorf("registry value %s of %s: %w", k.Parameter(1, "(default)"), k.Parameter(0, ""), err)
	}
	switch v := registryValue(data, kind).(type) {
	case string:
		if kind == registry.EXPAND_SZ {
			v, err = registry.ExpandString(v)
		}
		return item.FromText(v), err
	case uint32:
		return item.FromText(strconv.FormatUint(uint64(v), 10)), nil
	case uint64:
		return item.FromText(strconv.FormatUint(v, 10)), nil
	case int:
		return item.FromText(""), nil
	case []string:
		return jsonValue(v)
	}
	return item.Value{}, fmt.Errorf("%s: the value has the type %d of the registry, without a form as text", k.Name, kind)
}

// registryEntry is a value below a key of the registry, or a key without the last three fields.
type registryEntry struct {
	Key  string `json:"fullkey"`
	Last string `json:"lastsubkey"`
	Name string `json:"name"`
	Data any    `json:"data"`
	Type string `json:"type"`
}

// registryEntries collects the item registry.get[KEY,values|keys,REGEXP], the values or keys below a key of the registry
// as JSON. The regular expression selects names of values.
func registryEntries(ctx context.Context, _ *machine, k *Key) (item.Value, error) {
	var match *regexp.Regexp
	var err error
	mode := k.Parameter(1, "values")
	switch pattern := k.Parameter(2, ""); {
	case mode != "values" && mode != "keys":
		return item.Value{}, errUnknownMode(k, 1, "values", "keys")
	case mode == "keys" && len(k.Parameters) > 2:
		return item.Value{}, fmt.Errorf("%s: a regular expression selects values, not keys", k.Name)
	case pattern != "":
		if match, err = regexp.Compile(pattern); err != nil {
			return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	key, err := openRegistryKey(k)
	if err != nil {
		return item.Value{}, err
	}
	defer key.Close()
	rows := []any{}
	size := 0
	add := func(row any) error {
		text, err := json.Marshal(row)
		if size += len(text); err == nil && size > maxList {
			err = fmt.Errorf("%s: the list has over %d KiB; name a key farther below", k.Name, maxList>>10)
		}
		rows = append(rows, row)
		return err
	}
	if err := addRegistryEntries(ctx, key, k.Parameter(0, ""), "", mode == "keys", match, add); err != nil {
		return item.Value{}, err
	}
	return jsonValue(rows)
}

// addRegistryEntries calls the function add for each key or value below a key of the registry. path is the key with its
// hive, last its last part; the first key has none.
func addRegistryEntries(ctx context.Context, key registry.Key, path, last string, keys bool, match *regexp.Regexp, add func(row any) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if keys && last != "" {
		type row struct {
			Key  string `json:"fullkey"`
			Last string `json:"lastsubkey"`
		}
		if err := add(row{path, last}); err != nil {
			return err
		}
	}
	below, err := key.ReadSubKeyNames(-1)
	if err != nil && last == "" {
		return err
	} else if err != nil {
		return nil // Windows lists nothing below some of its own keys, such as Perflib\009
	}
	for _, name := range below {
		sub, err := registry.OpenKey(key, name, registry.READ)
		if err != nil {
			continue // the agent may not read this one
		}
		err = addRegistryEntries(ctx, sub, path+`\`+name, name, keys, match, add)
		_ = sub.Close()
		if err != nil {
			return err
		}
	}
	if keys {
		return nil
	}
	names, err := key.ReadValueNames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if match != nil && !match.MatchString(name) {
			continue
		}
		data, kind, err := readRegistryValue(key, name)
		if err != nil {
			continue // it has been deleted meanwhile, or is too long
		}
		if value := registryValue(data, kind); value != nil {
			if err := add(registryEntry{path, last, name, value, registryTypes[kind]}); err != nil {
				return err
			}
		}
	}
	return nil
}
