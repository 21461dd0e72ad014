package collect

import (
	"errors"
	"slices"

	"github.com/muster-fleet/muster/internal/item"
)

// memoryAmount is an amount of memory in bytes, with its name in item keys.
type memoryAmount struct {
	mode  string
	bytes float64
}

// selectMemory returns the amount of memory that the first parameter of an item key names. A mode with the prefix p
// is the share of a total in percent, for the amounts that shares names. Without a parameter the first amount counts.
func selectMemory(k *Key, total float64, amounts []memoryAmount, shares ...string) (item.Value, error) {
	mode := k.Parameter(0, amounts[0].mode)
	var modes []string
	for _, a := range amounts {
		if a.mode == mode {
			return item.FromUnsigned(uint64(a.bytes)), nil
		}
		modes = append(modes, a.mode)
		if slices.Contains(shares, a.mode) {
			if "p"+a.mode == mode && total == 0 {
				return item.Value{}, errors.New("the system reports no total of its memory")
			}
			if "p"+a.mode == mode {
				return item.FromFloat(a.bytes / total * 100), nil
			}
			modes = append(modes, "p"+a.mode)
		}
	}
	return item.Value{}, errUnknownMode(k, 0, modes...)
}

// selectSwap returns the amount of swap space that the second parameter of system.swap.size names.
func selectSwap(k *Key, total, free float64) (item.Value, error) {
	share := func(part, none float64) (item.Value, error) {
		if total == 0 {
			return item.FromFloat(none), nil
		}
		return item.FromFloat(part / total * 100), nil
	}
	switch k.Parameter(1, "free") {
	case "total":
		return item.FromUnsigned(uint64(total)), nil
	case "free":
		return item.FromUnsigned(uint64(free)), nil
	case "used":
		return item.FromUnsigned(uint64(total - free)), nil
	case "pfree":
		return share(free, 100)
	case "pused":
		return share(total-free, 0)
	}
	return item.Value{}, errUnknownMode(k, 1, "total", "free", "used", "pfree", "pused")
}
