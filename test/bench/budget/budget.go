// Package budget says where a call's processor time and memory go: it gives each sample of
// a profile to one stage of the call's way, by the functions on its stack.
package budget

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"github.com/google/pprof/profile"
)

// Spent is the cost of a stage of one call.
type Spent struct {
	CPU     float64 // in µs
	Kernel  float64 // of it in system calls, in µs
	Heap    float64 // of it in allocating, in µs
	Objects float64 // allocated
	Bytes   float64 // of them
}

func (s *Spent) add(o Spent) {
	s.CPU, s.Kernel, s.Heap = s.CPU+o.CPU, s.Kernel+o.Kernel, s.Heap+o.Heap
	s.Objects, s.Bytes = s.Objects+o.Objects, s.Bytes+o.Bytes
}

// Rest is the name of the samples that belong to no stage.
const Rest = "not assigned"

// Budget is the cost of each stage by its name, and of the rest.
type Budget map[string]Spent

// All is the sum of all stages.
func (b Budget) All() (all Spent) {
	for _, s := range b {
		all.add(s)
	}
	return all
}

// Of assigns a profile of the processor, and profiles of all allocations before and after,
// to stages. cpuCalls and heapCalls are the calls that were made meanwhile.
func Of(stages []Stage, cpu *profile.Profile, cpuCalls int, before, after *profile.Profile, heapCalls int) (Budget, error) {
	b := Budget{}
	time, err := index(cpu, "cpu")
	if err != nil {
		return nil, err
	}
	for _, s := range cpu.Sample {
		stack := names(s)
		us := float64(s.Value[time]) / 1000 / float64(cpuCalls)
		spent := Spent{CPU: us}
		if strings.HasPrefix(stack[0], "internal/runtime/syscall/") || stack[0] == "runtime.futex" {
			spent.Kernel = us
		}
		for _, f := range stack {
			if f == "runtime.mallocgc" || f == "runtime.growslice" {
				spent.Heap = us
			}
		}
		b.spend(stageOf(stages, stack), spent)
	}
	for _, p := range []struct {
		*profile.Profile
		sign float64
	}{{before, -1}, {after, 1}} {
		objects, err := index(p.Profile, "alloc_objects")
		if err != nil {
			return nil, err
		}
		bytes, err := index(p.Profile, "alloc_space")
		if err != nil {
			return nil, err
		}
		for _, s := range p.Sample {
			each := p.sign / float64(heapCalls)
			b.spend(stageOf(stages, names(s)), Spent{Objects: each * float64(s.Value[objects]), Bytes: each * float64(s.Value[bytes])})
		}
	}
	return b, nil
}

func (b Budget) spend(stage string, s Spent) {
	all := b[stage]
	all.add(s)
	b[stage] = all
}

func index(p *profile.Profile, kind string) (int, error) {
	for i, t := range p.SampleType {
		if t.Type == kind {
			return i, nil
		}
	}
	return 0, fmt.Errorf("the profile has no values of %s", kind)
}

// names are the functions on the stack of a sample, the innermost first.
func names(s *profile.Sample) (all []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			all = append(all, strings.TrimPrefix(line.Function.Name, ours))
		}
	}
	if len(all) == 0 {
		return []string{""}
	}
	return all
}

// stageOf returns the stage of a stack: the stage of its innermost function that has one. The cost
// of encoding JSON, or of allocating, belongs to the stage that asks for it.
func stageOf(stages []Stage, stack []string) string {
	for _, f := range stack {
		if name, ok := match(stages, f); ok {
			return name
		}
	}
	return Rest
}

// match is the stage with the longest beginning of a function's name.
func match(stages []Stage, f string) (name string, found bool) {
	longest := 0
	for _, s := range stages {
		for _, begin := range s.Functions {
			if len(begin) > longest && strings.HasPrefix(f, begin) {
				longest, name = len(begin), s.Name
			}
		}
	}
	return name, longest > 0
}

// Check fails if a stage names functions that none of the programs has: they have another name by
// now, and their cost would count for another stage.
func Check(stages []Stage, programs ...string) error {
	functions := map[string]bool{}
	for _, p := range programs {
		f, err := elf.Open(p)
		if err != nil {
			return err
		}
		symbols, err := f.Symbols()
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("functions of %s: %w", p, err)
		}
		for _, s := range symbols {
			functions[strings.TrimPrefix(s.Name, ours)] = true
		}
	}
	var failed error
	for _, s := range stages {
		for _, begin := range s.Functions {
			found := false
			for f := range functions {
				if found = strings.HasPrefix(f, begin); found {
					break
				}
			}
			if !found {
				failed = errors.Join(failed, fmt.Errorf("stage %q: no program has a function %s", s.Name, begin))
			}
		}
	}
	return failed
}
