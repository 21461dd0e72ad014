package prep_test

import _ "github.com/muster-fleet/muster/internal/prep/javascript" // the step javascript
