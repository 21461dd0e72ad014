package kind

import "testing"

// The example of every kind passes lint.
func TestExamplesAreValid(t *testing.T) {
	for _, k := range All().Kinds() {
		list, err := All().Read(k.Name, []byte(k.Example))
		if err != nil || len(list) != 1 || list[0].Kind != k.Name {
			t.Errorf("%s: %d resources, %v", k.Name, len(list), err)
		}
	}
}
