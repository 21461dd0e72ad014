package model

import "strconv"

// Runs reports whether the hook runs after a result; code is the command's exit code, negative where it has none.
func (h *Hook) Runs(status Status, code int) bool {
	for _, when := range h.When {
		if n, err := strconv.Atoi(when); err == nil {
			if n == code {
				return true
			}
		} else if when == "non-ok" && status != OK || equalFold(when, status.String()) {
			return true
		}
	}
	return false
}
