package prep

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// maxOutput bounds the text that a step makes of a shorter one, in bytes. A few steps could otherwise multiply a short
// value until the memory ends.
const maxOutput = 8 << 20

// errOutput is the error of a step with a too long output.
var errOutput = fmt.Errorf("the output of the step has more than %s", model.Size(maxOutput))

// maxOutputOf returns the limit for the output of a step, in bytes. A long input may keep its length.
func maxOutputOf(input string) int { return max(maxOutput, len(input)) }
