//go:build !linux

package process

// strangerListens is false: what cannot be found out is let pass.
func strangerListens(int, []int) bool { return false }

func diskFull(string) bool { return false }
