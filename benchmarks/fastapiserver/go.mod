module watchslo.invalid/benchmarks/fastapiserver

go 1.26.0
