function main()
    input = ARGS[1]
    n = parse(Int, ARGS[2])
end
main()
