#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    FILE *file = fopen("../data/points.txt", "r");
    double sum = 0, point;
    if (count < 2 || !file)
        return 1;
    while (fscanf(file, "%lf", &point) == 1)
        sum += point * atof(arguments[1]);
    printf("error=%g\n", sum);
    return 0;
}
